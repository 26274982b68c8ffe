#pragma once
#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace muster {

using Uint128 = unsigned __int128;
std::string Uint128ToString(Uint128 value);  // decimal

// Exact integer moments: sums are associative, so merging in any order gives the same bits. Units: ns, ns^2.
// Value type; not thread-safe.
struct Moments {
  uint64_t count = 0;
  uint64_t sum = 0;
  Uint128 sum_squares = 0;
  uint64_t min = UINT64_MAX;  // UINT64_MAX while count == 0
  uint64_t max = 0;
  uint64_t overflow = 0;  // values above kHighest: in count, sum, min and max, counted at the last counter

  // One value. Unchecked, for the hot path: a sum of durations needs 584 years of operation time to wrap.
  void Add(uint64_t value) {
    ++count;
    sum += value;
    sum_squares += static_cast<Uint128>(value) * value;
    if (value < min) min = value;
    if (value > max) max = value;
  }
  // OUT_OF_RANGE typed error HISTOGRAM_OVERFLOW when a sum would wrap; nothing is changed then.
  absl::Status Merge(const Moments& other);
  double Mean() const;  // 0 when empty; the only division
  // Population standard deviation, sqrt(n * sum_squares - sum^2) / n: the numerator is an exact 192-bit integer, the
  // first rounding is its conversion for the square root. 0 when empty.
  double StandardDeviation() const;
  bool operator==(const Moments&) const = default;
};

}  // namespace muster
