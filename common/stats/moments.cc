#include "common/stats/moments.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "common/base/status.h"
#include "fmt/format.h"

namespace muster {
namespace {

absl::Status OverflowError(std::string_view what) {
  return MakeError(absl::StatusCode::kOutOfRange,
                   {.code = "HISTOGRAM_OVERFLOW",
                    .message = fmt::format("merging histograms would overflow the {}", what),
                    .next = "Split the run into shorter steps."});
}

}  // namespace

std::string Uint128ToString(Uint128 value) {
  std::string digits;
  do {
    digits.push_back(static_cast<char>('0' + static_cast<int>(value % 10)));
    value /= 10;
  } while (value != 0);
  std::reverse(digits.begin(), digits.end());
  return digits;
}

absl::Status Moments::Merge(const Moments& other) {
  Moments merged;
  if (__builtin_add_overflow(count, other.count, &merged.count)) return OverflowError("count");
  if (__builtin_add_overflow(sum, other.sum, &merged.sum)) return OverflowError("sum");
  if (__builtin_add_overflow(sum_squares, other.sum_squares, &merged.sum_squares)) {
    return OverflowError("sum of squares");
  }
  if (__builtin_add_overflow(overflow, other.overflow, &merged.overflow)) return OverflowError("overflow counter");
  merged.min = std::min(min, other.min);
  merged.max = std::max(max, other.max);
  *this = merged;
  return absl::OkStatus();
}

double Moments::Mean() const {
  if (count == 0) return 0;
  return static_cast<double>(static_cast<long double>(sum) / static_cast<long double>(count));
}

double Moments::StandardDeviation() const {
  if (count == 0) return 0;
  // n * sum_squares in three 64-bit words: n * low + (n * high) * 2^64. Neither product overflows 128 bits, and the
  // carry of the first fits the second: (2^64-1)^2 + 2^64-1 < 2^128.
  const Uint128 low = static_cast<Uint128>(count) * static_cast<uint64_t>(sum_squares);
  Uint128 high = static_cast<Uint128>(count) * static_cast<uint64_t>(sum_squares >> 64) + (low >> 64);
  const auto word0 = static_cast<uint64_t>(low);
  // minus sum^2, which is below 2^128: two words. By Cauchy-Schwarz the difference is not negative for the sums of any
  // set of values; sums that belong to no values give 0.
  const Uint128 square = static_cast<Uint128>(sum) * sum;
  const auto square0 = static_cast<uint64_t>(square);
  const auto square1 = static_cast<uint64_t>(square >> 64);
  const uint64_t borrow = word0 < square0 ? 1 : 0;
  const Uint128 subtract = static_cast<Uint128>(square1) + borrow;
  if (high < subtract) return 0;
  high -= subtract;
  const uint64_t difference0 = word0 - square0;
  const long double numerator = std::ldexp(static_cast<long double>(static_cast<uint64_t>(high >> 64)), 128) +
                                std::ldexp(static_cast<long double>(static_cast<uint64_t>(high)), 64) +
                                static_cast<long double>(difference0);
  return static_cast<double>(std::sqrt(numerator) / static_cast<long double>(count));
}

}  // namespace muster
