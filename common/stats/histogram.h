#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace muster {

// The one histogram layout of the project: HdrHistogram (Tene), 3 significant digits, lowest discernible value 1 ns,
// highest trackable 2^42-1 ns (73 min): 2,048 sub-buckets, 33 halves ("octaves") of 1,024 counters = 33,792 counters.
// Index formulas are those of HdrHistogram's getCountsIndex / valueFromIndex.
namespace hist {
inline constexpr int kDigits = 3;
inline constexpr uint32_t kSubBuckets = 2048;
inline constexpr uint32_t kOctave = 1024;
inline constexpr uint32_t kOctaves = 33;
inline constexpr uint32_t kCounters = kOctave * kOctaves;
inline constexpr uint64_t kHighest = (uint64_t{1} << 42) - 1;

inline uint32_t IndexOf(uint64_t value) {  // value <= kHighest
  const int bucket = 64 - __builtin_clzll(value | (kSubBuckets - 1)) - 11;
  return (static_cast<uint32_t>(bucket) << 10) + static_cast<uint32_t>(value >> bucket);
}
uint64_t LowestOf(uint32_t index);   // smallest value counted at `index`
uint64_t HighestOf(uint32_t index);  // largest value counted at `index`
}  // namespace hist

using Uint128 = unsigned __int128;
std::string Uint128ToString(Uint128 value);  // decimal

// Exact integer moments: sums are associative, so merging in any order gives the same bits. Units: ns, ns^2.
struct Moments {
  uint64_t count = 0;
  uint64_t sum = 0;
  Uint128 sum_squares = 0;
  uint64_t min = UINT64_MAX;  // UINT64_MAX while count == 0
  uint64_t max = 0;
  uint64_t overflow = 0;  // values above kHighest: in count, sum, min and max, counted at the last counter

  void Add(uint64_t value) {
    ++count;
    sum += value;
    sum_squares += static_cast<Uint128>(value) * value;
    if (value < min) min = value;
    if (value > max) max = value;
  }
  // OUT_OF_RANGE typed error HISTOGRAM_OVERFLOW when a sum would wrap; nothing is changed then.
  absl::Status Merge(const Moments& other);
  double Mean() const;               // 0 when empty; the only division
  double StandardDeviation() const;  // population; sqrt of an exact integer variance numerator
  bool operator==(const Moments&) const = default;
};

// A histogram as it travels and is stored: moments plus the HdrHistogram V2 counter payload (ZigZag LEB128 words,
// a negative word is a run of zeros, trailing zeros left out), not deflated.
struct EncodedHistogram {
  Moments moments;
  std::string counts;
  bool operator==(const EncodedHistogram&) const = default;
};
inline constexpr size_t kMaxCountsPayload = 304'128;  // 9 bytes a counter

// Percentile as shown: `enough` is false when fewer than 10 operations lie above it (n*(1-q) < 10).
struct Quantile {
  uint64_t value = 0;
  bool enough = false;
};

// A mergeable histogram with 64-bit counters, for reading, merging and export. Value type; not thread-safe.
class Histogram {
 public:
  Histogram();

  void Record(uint64_t value);
  void RecordMany(uint64_t value, uint64_t times);
  // Exact and associative. HISTOGRAM_OVERFLOW when a sum or a counter would wrap; `this` is unchanged then.
  absl::Status Merge(const Histogram& other);
  // Decodes and merges. HISTOGRAM_CORRUPT: payload too long, bad varint, index beyond the layout, counter sum unlike
  // moments.count, min/max outside the counters' range. `this` is unchanged on error.
  absl::Status Merge(const EncodedHistogram& encoded);
  static absl::StatusOr<Histogram> Decode(const EncodedHistogram& encoded);
  EncodedHistogram Encode() const;

  const Moments& moments() const { return moments_; }
  uint64_t count() const { return moments_.count; }
  // Value at rank max(1, ceil(q*n)): its counter's highest value clamped to [min, max]. 0 when empty. q in [0, 1].
  Quantile At(double q) const;
  // Calls back for every non-zero counter in ascending order.
  void ForEach(const std::function<void(uint32_t index, uint64_t count)>& visit) const;
  void Clear();
  bool operator==(const Histogram& other) const;

 private:
  friend class PagedHistogram;
  std::vector<std::vector<uint64_t>> octaves_;  // an empty vector is 1,024 zeros
  Moments moments_;
};

// HdrHistogram log format (".hlog", version 1.3, HdrHistogram's HistogramLogWriter): one line an interval with a
// V2 compressed (zlib, base64) histogram. Times in seconds.
class HlogWriter {
 public:
  // Header lines; `start_wall_micros` becomes [StartTime: ...].
  static std::string Header(int64_t start_wall_micros, std::string_view comment);
  // One interval; `tag` may be empty (no comma, blank or newline in it). Interval maximum is in milliseconds as the
  // reference writer does (max / 1e6).
  static absl::StatusOr<std::string> Line(std::string_view tag, double start_seconds, double length_seconds,
                                          const Histogram& histogram);
  // The base64 text of the V2 compressed form alone (what HdrHistogram's decodeFromCompressedBase64 takes).
  static absl::StatusOr<std::string> CompressedBase64(const Histogram& histogram);
};

}  // namespace muster
