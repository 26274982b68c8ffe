#include "common/stats/consistency.h"

#include "common/base/status.h"
#include "common/stats/layout.h"
#include "fmt/format.h"

namespace muster {
namespace {

// What the counters alone say of the moments.
struct Bounds {
  uint64_t count = 0;
  Uint128 sum_low = 0;
  Uint128 sum_high = 0;
  Uint128 squares_low = 0;
  Uint128 squares_high = 0;
};

// value^2 * count added to `total`; past 128 bits it stays at the largest value, which no stored sum is above.
void AddSquares(uint64_t value, uint64_t count, Uint128& total) {
  Uint128 part = 0;
  if (__builtin_mul_overflow(static_cast<Uint128>(value) * value, Uint128{count}, &part) ||
      __builtin_add_overflow(total, part, &total)) {
    total = ~Uint128{0};
  }
}

// `limit` bounds the count, so the sums of values below 2^42 stay far from 128 bits.
absl::Status BoundsOf(const std::vector<Counter>& counters, uint64_t limit, Bounds& bounds) {
  for (const Counter& counter : counters) {
    if (counter.count > limit - bounds.count) {
      return CorruptHistogram(fmt::format("counters hold more than count {}", limit));
    }
    bounds.count += counter.count;
    const uint64_t low = hist::LowestOf(counter.index);
    const uint64_t high = hist::HighestOf(counter.index);
    bounds.sum_low += static_cast<Uint128>(low) * counter.count;
    bounds.sum_high += static_cast<Uint128>(high) * counter.count;
    AddSquares(low, counter.count, bounds.squares_low);
    AddSquares(high, counter.count, bounds.squares_high);
  }
  if (bounds.count != limit) {
    return CorruptHistogram(fmt::format("counters hold {} values but count is {}", bounds.count, limit));
  }
  return absl::OkStatus();
}

absl::Status CheckRange(const Moments& moments, const Counter& first, const Counter& last) {
  const uint64_t last_count = last.index == hist::kCounters - 1 ? last.count : 0;
  if (moments.overflow > last_count) {
    return CorruptHistogram(fmt::format("overflow {} is more than the last counter holds", moments.overflow));
  }
  const bool all_over = moments.overflow == moments.count;
  const bool any_over = moments.overflow > 0;
  if (all_over ? moments.min <= hist::kHighest
               : moments.min < hist::LowestOf(first.index) || moments.min > hist::HighestOf(first.index)) {
    return CorruptHistogram(fmt::format("min {} is not in the first counter", moments.min));
  }
  if (any_over ? moments.max <= hist::kHighest
               : moments.max < hist::LowestOf(last.index) || moments.max > hist::HighestOf(last.index)) {
    return CorruptHistogram(fmt::format("max {} is not in the last counter", moments.max));
  }
  if (moments.min > moments.max || (moments.count == 1 && moments.min != moments.max)) {
    return CorruptHistogram(fmt::format("min {} and max {} contradict each other", moments.min, moments.max));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckConsistent(const Moments& moments, const std::vector<Counter>& counters) {
  if (moments.count > kMaxHistogramCount) {
    return CorruptHistogram(fmt::format("count {} is beyond 2^63-1", moments.count));
  }
  if (moments.count == 0) {
    if (!counters.empty()) return CorruptHistogram("it has counters but count is 0");
    if (moments != Moments{}) return CorruptHistogram("count is 0 but other moments are not those of an empty one");
    return absl::OkStatus();
  }
  Bounds bounds;
  MUSTER_RETURN_IF_ERROR(BoundsOf(counters, moments.count, bounds));
  MUSTER_RETURN_IF_ERROR(CheckRange(moments, counters.front(), counters.back()));
  // Values beyond the range have no upper bound in the counters.
  const bool bounded = moments.overflow == 0;
  if (moments.sum < bounds.sum_low || (bounded && moments.sum > bounds.sum_high)) {
    return CorruptHistogram(fmt::format("sum {} is not one of its counters", moments.sum));
  }
  if (moments.sum_squares < bounds.squares_low || (bounded && moments.sum_squares > bounds.squares_high)) {
    return CorruptHistogram(
        fmt::format("sum of squares {} is not one of its counters", Uint128ToString(moments.sum_squares)));
  }
  return absl::OkStatus();
}

}  // namespace muster
