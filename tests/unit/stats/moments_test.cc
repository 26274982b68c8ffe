#include "common/stats/moments.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "common/base/rng.h"
#include "common/base/status.h"

namespace muster {
namespace {

constexpr Uint128 kMax128 = ~Uint128{0};

TEST_CASE("128-bit decimal text", "[moments]") {
  CHECK(Uint128ToString(0) == "0");
  CHECK(Uint128ToString(10) == "10");
  CHECK(Uint128ToString(UINT64_MAX) == "18446744073709551615");
  CHECK(Uint128ToString(Uint128{UINT64_MAX} + 1) == "18446744073709551616");
  CHECK(Uint128ToString(kMax128) == "340282366920938463463374607431768211455");
}

TEST_CASE("moments of known values", "[moments]") {
  Moments moments;
  CHECK(moments.Mean() == 0);
  CHECK(moments.StandardDeviation() == 0);
  for (const uint64_t value : {2, 4, 4, 4, 5, 5, 7, 9}) moments.Add(value);
  CHECK(moments.count == 8);
  CHECK(moments.sum == 40);
  CHECK(moments.sum_squares == 232);
  CHECK(moments.min == 2);
  CHECK(moments.max == 9);
  CHECK(moments.Mean() == 5);
  CHECK(moments.StandardDeviation() == 2);
}

TEST_CASE("the deviation of equal values is exactly zero, however large", "[moments]") {
  for (const uint64_t value : {uint64_t{1}, uint64_t{123'456'789}, (uint64_t{1} << 42) - 1, (uint64_t{1} << 52) + 1}) {
    Moments moments;
    for (int i = 0; i < 1'000; ++i) moments.Add(value);
    CHECK(moments.StandardDeviation() == 0);
    CHECK(moments.Mean() == static_cast<double>(value));
  }
}

TEST_CASE("a deviation tiny beside its mean survives", "[moments]") {
  // 10^6 values around one hour that differ by 1 ns: in doubles the sums of squares (1e31) would swallow it whole.
  Moments moments;
  const uint64_t hour = 3'600'000'000'000;
  for (int i = 0; i < 1'000'000; ++i) moments.Add(hour + static_cast<uint64_t>(i & 1));
  CHECK(moments.StandardDeviation() == 0.5);
}

TEST_CASE("the deviation is exact where n * sum of squares needs 192 bits", "[moments]") {
  // Half the values 0, half v: deviation v / 2. count 2^62, sum 2^61 * v must stay below 2^64: v = 7.
  const uint64_t half = uint64_t{1} << 61;
  Moments small{.count = 2 * half, .sum = half * 7, .sum_squares = Uint128{half} * 49, .min = 0, .max = 7};
  CHECK(small.StandardDeviation() == 3.5);
  // Few but huge: 2 values, 0 and 2^63: sum of squares 2^126, product 2^127, squared sum 2^126.
  const uint64_t huge = uint64_t{1} << 63;
  Moments large{.count = 2, .sum = huge, .sum_squares = Uint128{huge} * huge, .min = 0, .max = huge};
  CHECK(large.StandardDeviation() == std::ldexp(1.0, 62));
  // count 2^40, one value 2^63 and the rest 0: n * sumsq = 2^166, beyond 128 bits.
  Moments wide{.count = uint64_t{1} << 40, .sum = huge, .sum_squares = Uint128{huge} * huge, .min = 0, .max = huge};
  const double expected = std::ldexp(1.0, 63) / std::ldexp(1.0, 20) * std::sqrt(1 - std::ldexp(1.0, -40));
  CHECK(wide.StandardDeviation() == Approx(expected).epsilon(1e-15));
  // The largest fields there are: a borrow and a carry through every word, and no trap.
  Moments extreme{.count = UINT64_MAX, .sum = UINT64_MAX, .sum_squares = kMax128, .min = 0, .max = UINT64_MAX};
  CHECK(extreme.StandardDeviation() == Approx(std::ldexp(1.0, 32)).epsilon(1e-9));
}

TEST_CASE("sums that belong to no values give deviation 0", "[moments]") {
  const Moments impossible{.count = 2, .sum = 100, .sum_squares = 1, .min = 1, .max = 1};
  CHECK(impossible.StandardDeviation() == 0);
}

TEST_CASE("the deviation agrees with two passes over the values", "[moments]") {
  Rng rng(21);
  for (int round = 0; round < 50; ++round) {
    Moments moments;
    std::vector<uint64_t> values;
    const uint64_t span = uint64_t{1} << (1 + rng.Below(41));
    for (int i = 0; i < 500; ++i) {
      values.push_back(rng.Below(span));
      moments.Add(values.back());
    }
    long double mean = 0;
    for (const uint64_t value : values) mean += static_cast<long double>(value);
    mean /= static_cast<long double>(values.size());
    long double squares = 0;
    for (const uint64_t value : values) {
      const long double distance = static_cast<long double>(value) - mean;
      squares += distance * distance;
    }
    const auto expected = static_cast<double>(std::sqrt(squares / static_cast<long double>(values.size())));
    CHECK(moments.Mean() == Approx(static_cast<double>(mean)).epsilon(1e-14));
    CHECK(moments.StandardDeviation() == Approx(expected).epsilon(1e-13));
  }
}

TEST_CASE("merging moments is adding them", "[moments]") {
  Moments a;
  Moments b;
  Moments all;
  for (const uint64_t value : {5, 1, 9}) {
    a.Add(value);
    all.Add(value);
  }
  for (const uint64_t value : {2, 100}) {
    b.Add(value);
    all.Add(value);
  }
  Moments empty;
  REQUIRE(a.Merge(b).ok());
  CHECK(a == all);
  REQUIRE(a.Merge(empty).ok());
  CHECK(a == all);
  REQUIRE(empty.Merge(all).ok());
  CHECK(empty == all);
}

TEST_CASE("a merge that would wrap is refused and changes nothing", "[moments]") {
  const Moments one{.count = 1, .sum = 1, .sum_squares = 1, .min = 1, .max = 1, .overflow = 1};
  const Moments full[] = {
      {.count = UINT64_MAX, .sum = 0, .sum_squares = 0, .min = 3, .max = 3},
      {.count = 5, .sum = UINT64_MAX, .sum_squares = 0, .min = 3, .max = 3},
      {.count = 5, .sum = 5, .sum_squares = kMax128, .min = 3, .max = 3},
      {.count = 5, .sum = 5, .sum_squares = 5, .min = 3, .max = 3, .overflow = UINT64_MAX},
  };
  for (const Moments& moments : full) {
    Moments changed = moments;
    const absl::Status status = changed.Merge(one);
    CHECK(status.code() == absl::StatusCode::kOutOfRange);
    CHECK(GetErrorInfo(status).code == "HISTOGRAM_OVERFLOW");
    CHECK(changed == moments);
  }
}

}  // namespace
}  // namespace muster
