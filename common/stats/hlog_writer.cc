#include "common/stats/hlog_writer.h"

#include <time.h>
#include <zlib.h>

#include <bit>

#include "absl/strings/escaping.h"
#include "common/base/status.h"
#include "common/stats/histogram.h"
#include "fmt/format.h"

namespace muster {
namespace {

// Cookies of HdrHistogram's AbstractHistogram: V2 base values with 0x10 for "words of up to 8 bytes".
constexpr uint32_t kCookie = 0x1c849303 | 0x10;
constexpr uint32_t kCompressedCookie = 0x1c849304 | 0x10;

template <typename T>
void PutBigEndian(std::string& out, T value) {
  for (int shift = 8 * (static_cast<int>(sizeof(T)) - 1); shift >= 0; shift -= 8) {
    out.push_back(static_cast<char>(value >> shift));
  }
}

// The V2 form before compression: cookie, payload length, normalizing index offset, digits, lowest, highest,
// integer-to-double ratio, payload; everything big-endian (AbstractHistogram.encodeIntoByteBuffer).
std::string EncodeV2(const Histogram& histogram) {
  std::string counts = histogram.Encode().counts;
  if (counts.empty()) counts.push_back('\0');  // the reference writes counter 0 of an empty histogram
  std::string out;
  PutBigEndian(out, kCookie);
  PutBigEndian(out, static_cast<uint32_t>(counts.size()));
  PutBigEndian(out, uint32_t{0});
  PutBigEndian(out, static_cast<uint32_t>(hist::kDigits));
  PutBigEndian(out, hist::kLowest);
  PutBigEndian(out, hist::kHighest);
  PutBigEndian(out, std::bit_cast<uint64_t>(1.0));
  return out + counts;
}

}  // namespace

std::string HlogWriter::Header(int64_t start_wall_micros, std::string_view comment) {
  std::string out;
  while (!comment.empty()) {
    const size_t end = comment.find_first_of("\r\n");
    const std::string_view line = comment.substr(0, end);
    if (!line.empty()) out += fmt::format("#{}\n", line);
    comment.remove_prefix(end == std::string_view::npos ? comment.size() : end + 1);
  }
  const time_t seconds = static_cast<time_t>(start_wall_micros / 1'000'000);
  tm utc{};
  gmtime_r(&seconds, &utc);
  char date[64];
  strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &utc);
  out += "#[Histogram log format version 1.3]\n";
  out += fmt::format("#[StartTime: {}.{:03} (seconds since epoch), {}]\n", start_wall_micros / 1'000'000,
                     start_wall_micros % 1'000'000 / 1'000, date);
  out += "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n";
  return out;
}

absl::StatusOr<std::string> HlogWriter::Line(std::string_view tag, double start_seconds, double length_seconds,
                                             const Histogram& histogram) {
  if (tag.find_first_of(", \t\r\n") != std::string_view::npos) {
    return MakeError(absl::StatusCode::kInvalidArgument,
                     {.code = "HLOG_TAG",
                      .message = fmt::format("tag \"{}\" holds a comma, a blank or a line end", tag),
                      .next = "Use letters, digits, '-' and '_'."});
  }
  MUSTER_ASSIGN_OR_RETURN(const std::string text, CompressedBase64(histogram));
  const std::string prefix = tag.empty() ? "" : fmt::format("Tag={},", tag);
  return fmt::format("{}{:.3f},{:.3f},{:.3f},{}\n", prefix, start_seconds, length_seconds,
                     static_cast<double>(histogram.moments().max) / 1e6, text);
}

absl::StatusOr<std::string> HlogWriter::CompressedBase64(const Histogram& histogram) {
  const std::string plain = EncodeV2(histogram);
  uLongf size = compressBound(plain.size());
  std::string deflated(size, '\0');
  const int result = compress2(reinterpret_cast<Bytef*>(deflated.data()), &size,
                               reinterpret_cast<const Bytef*>(plain.data()), plain.size(), Z_DEFAULT_COMPRESSION);
  if (result != Z_OK) {
    return MakeError(
        absl::StatusCode::kInternal,
        {.code = "HLOG_COMPRESS", .message = fmt::format("zlib could not compress a histogram: {}", result)});
  }
  deflated.resize(size);
  std::string out;
  PutBigEndian(out, kCompressedCookie);
  PutBigEndian(out, static_cast<uint32_t>(deflated.size()));
  return absl::Base64Escape(out + deflated);
}

}  // namespace muster
