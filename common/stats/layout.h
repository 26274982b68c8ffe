#pragma once
#include <cstdint>

#include "absl/status/status.h"

namespace muster {

// The one histogram layout of the project: HdrHistogram (Tene), 3 significant digits, lowest discernible value 1 ns,
// highest trackable 2^42-1 ns (73 min): 2,048 sub-buckets, 33 halves ("octaves") of 1,024 counters = 33,792 counters.
// Index formulas are those of HdrHistogram's getCountsIndex / valueFromIndex.
namespace hist {
inline constexpr int kDigits = 3;
inline constexpr uint64_t kLowest = 1;
inline constexpr uint32_t kSubBuckets = 2048;
inline constexpr uint32_t kOctave = 1024;
inline constexpr uint32_t kOctaves = 33;
inline constexpr uint32_t kCounters = kOctave * kOctaves;
inline constexpr uint64_t kHighest = (uint64_t{1} << 42) - 1;

inline uint32_t IndexOf(uint64_t value) {  // value <= kHighest
  const int bucket = 64 - __builtin_clzll(value | (kSubBuckets - 1)) - 11;
  return (static_cast<uint32_t>(bucket) << 10) + static_cast<uint32_t>(value >> bucket);
}
// Smallest value counted at `index` (< kCounters).
inline uint64_t LowestOf(uint32_t index) {
  if (index < kSubBuckets) return index;
  const uint32_t bucket = (index >> 10) - 1;
  return static_cast<uint64_t>((index & (kOctave - 1)) + kOctave) << bucket;
}
// Largest value counted at `index` (< kCounters).
inline uint64_t HighestOf(uint32_t index) {
  const uint32_t bucket = index < kSubBuckets ? 0 : (index >> 10) - 1;
  return LowestOf(index) + (uint64_t{1} << bucket) - 1;
}
}  // namespace hist

// Histograms of another layout do not merge: typed error HISTOGRAM_LAYOUT naming both layouts. To be asked before a
// histogram that came over the wire or from a file is decoded.
absl::Status CheckLayout(int digits, uint64_t lowest, uint64_t highest);

}  // namespace muster
