#include "common/stats/counts_pack.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "common/base/status.h"
#include "common/stats/counts_codec.h"
#include "common/stats/layout.h"

namespace muster {
namespace {

constexpr uint32_t kEscape = 20;  // ones that announce a number written out
constexpr uint64_t kMaxCount = INT64_MAX;

// What both ends know of the counters so far.
class Model {
 public:
  bool sparse() const { return mean_ < 80; }
  uint32_t CountBits() const { return LeastBits(384, mean_); }
  uint32_t GapBits() const { return LeastBits(12, gap_); }
  void Count(uint64_t count) { mean_ += 8 * std::min<uint64_t>(count, 1 << 20) - mean_ / 32; }
  void Gap(uint64_t zeros) {
    gap_ += zeros - gap_ / 8;
    // Below 32 it does not fall any more.
    for (uint64_t i = 0; i < zeros && mean_ >= 32; ++i) Count(0);
  }

 private:
  static uint32_t LeastBits(uint64_t unit, uint64_t value) {
    uint32_t bits = 0;
    while (unit << bits < value) ++bits;
    return bits;
  }
  uint64_t mean_ = 0;
  uint64_t gap_ = 0;
};

class BitWriter {
 public:
  explicit BitWriter(std::string& out) : out_(out) {}
  void Rice(uint64_t n, uint32_t k) {
    const uint64_t q = n >> k;
    if (q >= kEscape) {
      const auto length = static_cast<uint32_t>(std::bit_width(n));
      Put((uint64_t{1} << kEscape) - 1, kEscape);
      Put(length - 1, 6);
      if (length > 32) Put(n >> 32, length - 32);
      Put(length > 32 ? n & UINT32_MAX : n, std::min(length, 32u));
      return;
    }
    Put(((uint64_t{1} << q) - 1) << 1, static_cast<uint32_t>(q) + 1);
    Put(n & ((uint64_t{1} << k) - 1), k);
  }
  void Finish() {
    if (held_ > 0) Put(0, 8 - held_);
  }

 private:
  // At most 32 bits at a time.
  void Put(uint64_t bits, uint32_t count) {
    word_ = word_ << count | bits;
    held_ += count;
    while (held_ >= 8) {
      held_ -= 8;
      out_.push_back(static_cast<char>(word_ >> held_));
    }
  }
  std::string& out_;
  uint64_t word_ = 0;
  uint32_t held_ = 0;  // low bits of word_ not written yet
};

// Reads zeros beyond the end; `short_of()` tells.
class BitReader {
 public:
  explicit BitReader(std::string_view in) : in_(in) {}
  // False: a number that no writer writes.
  bool Rice(uint32_t k, uint64_t& n) {
    uint32_t q = 0;
    while (q < kEscape && Take(1) == 1) ++q;
    if (q < kEscape) {
      n = static_cast<uint64_t>(q) << k | Take(k);
      return true;
    }
    const auto length = static_cast<uint32_t>(Take(6)) + 1;
    n = length > 32 ? Take(length - 32) : 0;
    n = n << std::min(length, 32u) | Take(std::min(length, 32u));
    return static_cast<uint32_t>(std::bit_width(n)) == length && n >> k >= kEscape;
  }
  bool short_of() const { return short_; }
  // At the end, but for fill bits, which are zero.
  bool finished() const { return at_ == in_.size() && held_ < 8 && (word_ & ((uint64_t{1} << held_) - 1)) == 0; }

 private:
  uint64_t Take(uint32_t count) {
    while (held_ < count) {
      short_ = short_ || at_ >= in_.size();
      word_ = word_ << 8 | (at_ < in_.size() ? static_cast<unsigned char>(in_[at_]) : 0);
      ++at_;
      held_ += 8;
    }
    held_ -= count;
    return word_ >> held_ & ((uint64_t{1} << count) - 1);
  }
  std::string_view in_;
  size_t at_ = 0;
  uint64_t word_ = 0;
  uint32_t held_ = 0;
  bool short_ = false;
};

}  // namespace

absl::StatusOr<std::string> PackCounts(std::string_view payload) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<Counter> counters, DecodeCounts(payload));
  std::string out;
  out.reserve(payload.size() / 2 + 8);
  size_t size = counters.size();
  for (; size >= 0x80; size >>= 7) out.push_back(static_cast<char>(size | 0x80));
  out.push_back(static_cast<char>(size));
  BitWriter bits(out);
  Model model;
  uint32_t next = 0;
  for (const Counter& counter : counters) {
    for (; !model.sparse() && next < counter.index; ++next) {
      bits.Rice(0, model.CountBits());
      model.Count(0);
    }
    if (model.sparse()) {
      bits.Rice(counter.index - next, model.GapBits());
      model.Gap(counter.index - next);
      bits.Rice(counter.count - 1, 0);
    } else {
      bits.Rice(counter.count, model.CountBits());
    }
    model.Count(counter.count);
    next = counter.index + 1;
  }
  bits.Finish();
  return out;
}

absl::StatusOr<std::string> UnpackCounts(std::string_view packed) {
  uint64_t left = 0;
  size_t at = 0;
  for (uint32_t shift = 0;; shift += 7) {
    if (at >= packed.size() || shift > 14) return CorruptHistogram("packed counters have no valid number of counters");
    const auto byte = static_cast<unsigned char>(packed[at++]);
    left |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte >= 0x80) continue;
    if (byte == 0 && shift > 0) return CorruptHistogram("the number of packed counters is padded");
    break;
  }
  if (left > hist::kCounters) return CorruptHistogram("more packed counters than the layout has");
  BitReader bits(packed.substr(at));
  CountsWriter out;
  Model model;
  uint64_t next = 0;
  // Every pass moves `next` on by at least one.
  while (left > 0) {
    uint64_t count = 0;
    bool valid = true;
    if (model.sparse()) {
      uint64_t zeros = 0;
      valid = bits.Rice(model.GapBits(), zeros) && zeros < hist::kCounters && bits.Rice(0, count) && count < kMaxCount;
      if (!valid) return CorruptHistogram("a packed counter or run of zeros is out of range");
      model.Gap(zeros);
      next += zeros;
      ++count;
    } else {
      valid = bits.Rice(model.CountBits(), count) && count <= kMaxCount;
    }
    if (!valid || next >= hist::kCounters) return CorruptHistogram("packed counters reach beyond the layout");
    if (bits.short_of()) return CorruptHistogram("packed counters are cut short");
    model.Count(count);
    if (count > 0) {
      out.Add(static_cast<uint32_t>(next), count);
      --left;
    }
    ++next;
  }
  if (!bits.finished()) return CorruptHistogram("packed counters are followed by something else");
  return out.Take();
}

}  // namespace muster
