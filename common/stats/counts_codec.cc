#include "common/stats/counts_codec.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/stats/layout.h"
#include "fmt/format.h"

namespace muster {
namespace {

constexpr size_t kMaxWordBytes = 9;

}  // namespace

absl::Status CorruptHistogram(std::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.code = "HISTOGRAM_CORRUPT", .message = fmt::format("histogram is corrupt: {}", message)});
}

void CountsWriter::Put(int64_t word) {
  uint64_t bits = (static_cast<uint64_t>(word) << 1) ^ static_cast<uint64_t>(word >> 63);
  // Eight groups of seven bits; what is left then fills the ninth byte whole.
  char bytes[kMaxWordBytes];
  size_t size = 0;
  while (bits >= 0x80 && size < kMaxWordBytes - 1) {
    bytes[size++] = static_cast<char>(bits | 0x80);
    bits >>= 7;
  }
  bytes[size++] = static_cast<char>(bits);
  out_.append(bytes, size);
}

void CountsWriter::Add(uint32_t index, uint64_t count) {
  const uint32_t zeros = index - next_;
  if (zeros == 1) {
    Put(0);
  } else if (zeros > 1) {
    Put(-static_cast<int64_t>(zeros));
  }
  Put(static_cast<int64_t>(count));
  next_ = index + 1;
}

std::string CountsWriter::Take() {
  next_ = 0;
  return std::exchange(out_, {});
}

absl::StatusOr<std::vector<Counter>> DecodeCounts(std::string_view payload) {
  if (payload.size() > kMaxCountsPayload) {
    return CorruptHistogram(fmt::format("payload of {} bytes, at most {}", payload.size(), kMaxCountsPayload));
  }
  std::vector<Counter> counters;
  counters.reserve(std::min<size_t>(payload.size(), hist::kCounters));
  const auto* bytes = reinterpret_cast<const unsigned char*>(payload.data());
  uint64_t index = 0;
  for (size_t at = 0; at < payload.size();) {
    const size_t start = at;
    uint64_t bits = bytes[at++];
    if (bits >= 0x80) {
      bits &= 0x7f;
      for (size_t k = 1;; ++k) {
        if (at >= payload.size()) {
          return CorruptHistogram(fmt::format("word at byte {} is cut short", start));
        }
        const uint64_t byte = bytes[at++];
        if (k == kMaxWordBytes - 1) {
          bits |= byte << 56;
          if (byte == 0) return CorruptHistogram(fmt::format("word at byte {} is padded", start));
          break;
        }
        bits |= (byte & 0x7f) << (7 * k);
        if (byte < 0x80) {
          if (byte == 0) return CorruptHistogram(fmt::format("word at byte {} is padded", start));
          break;
        }
      }
    }
    const auto word = static_cast<int64_t>((bits >> 1) ^ (0 - (bits & 1)));
    // Both branches leave index <= kCounters, so nothing here can wrap.
    const uint64_t span = word < 0 ? 0 - static_cast<uint64_t>(word) : 1;
    if (span > hist::kCounters - index) {
      return CorruptHistogram(fmt::format("word at byte {} reaches beyond counter {}", start, hist::kCounters - 1));
    }
    if (word > 0) counters.push_back({static_cast<uint32_t>(index), static_cast<uint64_t>(word)});
    index += span;
  }
  return counters;
}

}  // namespace muster
