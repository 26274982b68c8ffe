#include "common/stats/histogram.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "common/base/status.h"

namespace muster {
namespace {

constexpr uint64_t kHour = 3'600'000'000'000;

void CheckCorrupt(const EncodedHistogram& encoded, const std::string& why) {
  INFO(why);
  Histogram target;
  target.Record(77);
  const Histogram before = target;
  const absl::Status status = target.Merge(encoded);
  CHECK(GetErrorInfo(status).code == "HISTOGRAM_CORRUPT");
  CHECK_THAT(GetErrorInfo(status).message, Catch::Contains(why));
  CHECK(target == before);
  CHECK_FALSE(Histogram::Decode(encoded).ok());
}

Histogram Of(std::initializer_list<uint64_t> values) {
  Histogram histogram;
  for (const uint64_t value : values) histogram.Record(value);
  return histogram;
}

TEST_CASE("an empty histogram", "[histogram]") {
  const Histogram empty;
  CHECK(empty.count() == 0);
  CHECK(empty.At(0.5).value == 0);
  CHECK_FALSE(empty.At(0.5).enough);
  CHECK(empty.Encode() == EncodedHistogram{});
  REQUIRE(Histogram::Decode(EncodedHistogram{}).ok());
  CHECK(*Histogram::Decode(EncodedHistogram{}) == empty);
}

TEST_CASE("quantiles are clamped to what was seen", "[histogram]") {
  const Histogram one = Of({123'456});
  for (const double q : {0.0, 0.5, 0.999, 1.0}) CHECK(one.At(q).value == 123'456);
  const Histogram two = Of({1'000'001, 1'000'003});  // one counter: 999,936 .. 1,000,447
  CHECK(two.At(0.5).value == 1'000'003);
  CHECK(two.At(1).value == 1'000'003);
}

TEST_CASE("rank is max(1, ceil(q n)) of the decimal q, not of its binary neighbour", "[histogram]") {
  Histogram histogram;
  for (uint64_t value = 1; value <= 100; ++value) histogram.Record(value);
  CHECK(histogram.At(0).value == 1);
  CHECK(histogram.At(0.0001).value == 1);
  // 0.07 and 0.29 times 100 are above 7 and 29 in doubles.
  for (int percent = 1; percent <= 100; ++percent) {
    INFO(percent);
    CHECK(histogram.At(percent / 100.0).value == static_cast<uint64_t>(percent));
  }
  CHECK(histogram.At(0.701).value == 71);
  CHECK(histogram.At(1).value == 100);
}

TEST_CASE("quantiles outside 0..1 are clamped, an undefined one gives the worst", "[histogram]") {
  const Histogram histogram = Of({1, 2, 3});
  CHECK(histogram.At(-1).value == 1);
  CHECK(histogram.At(7).value == 3);
  CHECK(histogram.At(std::numeric_limits<double>::quiet_NaN()).value == 3);
}

TEST_CASE("a percentile is enough with ten operations above it", "[histogram]") {
  Histogram histogram;
  REQUIRE(histogram.RecordMany(1000, 999).ok());
  CHECK_FALSE(histogram.At(0.99).enough);
  histogram.Record(1000);
  CHECK(histogram.At(0.99).enough);
  CHECK_FALSE(histogram.At(0.999).enough);
  REQUIRE(histogram.RecordMany(1000, 9000).ok());
  CHECK(histogram.At(0.999).enough);
  CHECK_FALSE(histogram.At(1).enough);
  REQUIRE(histogram.RecordMany(1000, 999'990'000).ok());
  CHECK(histogram.At(0.99999999).enough);
  CHECK_FALSE(histogram.At(0.999999991).enough);
}

TEST_CASE("values above the range are counted, bounded by max and never lost", "[histogram]") {
  Histogram histogram = Of({5, 2 * kHour, 3 * kHour});
  CHECK(histogram.moments().overflow == 2);
  CHECK(histogram.moments().max == 3 * kHour);
  CHECK(histogram.moments().sum == 5 + 5 * kHour);
  CHECK(histogram.At(0.3).value == 5);
  CHECK(histogram.At(0.5).value == 3 * kHour);
  CHECK(histogram.At(1).value == 3 * kHour);
  const auto decoded = Histogram::Decode(histogram.Encode());
  REQUIRE(decoded.ok());
  CHECK(*decoded == histogram);
  const Histogram all_over = Of({2 * kHour});
  CHECK(all_over.At(0.5).value == 2 * kHour);
  CHECK(*Histogram::Decode(all_over.Encode()) == all_over);
}

TEST_CASE("the highest value and its neighbours", "[histogram]") {
  const Histogram edge = Of({hist::kHighest - 1, hist::kHighest});
  CHECK(edge.moments().overflow == 0);
  CHECK(edge.At(1).value == hist::kHighest);
  CHECK(*Histogram::Decode(edge.Encode()) == edge);
  const Histogram beyond = Of({hist::kHighest + 1});
  CHECK(beyond.moments().overflow == 1);
  CHECK(*Histogram::Decode(beyond.Encode()) == beyond);
}

TEST_CASE("RecordMany is Record that many times", "[histogram]") {
  Histogram many;
  Histogram single;
  REQUIRE(many.RecordMany(1234, 500).ok());
  REQUIRE(many.RecordMany(2 * kHour, 3).ok());
  REQUIRE(many.RecordMany(9, 0).ok());
  for (int i = 0; i < 500; ++i) single.Record(1234);
  for (int i = 0; i < 3; ++i) single.Record(2 * kHour);
  CHECK(many == single);
}

TEST_CASE("recording or merging beyond 64 bits is refused whole", "[histogram]") {
  Histogram full;
  REQUIRE(full.RecordMany(1, INT64_MAX).ok());
  const Histogram before = full;
  CHECK(GetErrorInfo(full.RecordMany(1, 1)).code == "HISTOGRAM_OVERFLOW");
  CHECK(GetErrorInfo(full.RecordMany(UINT64_MAX, 2)).code == "HISTOGRAM_OVERFLOW");
  CHECK(GetErrorInfo(full.Merge(Of({1}))).code == "HISTOGRAM_OVERFLOW");
  CHECK(GetErrorInfo(full.Merge(Of({1}).Encode())).code == "HISTOGRAM_OVERFLOW");
  CHECK(full == before);
  REQUIRE(full.Merge(Histogram()).ok());
  CHECK(*Histogram::Decode(full.Encode()) == full);

  Histogram sums;
  REQUIRE(sums.RecordMany(hist::kHighest, uint64_t{1} << 21).ok());
  const Histogram half = sums;
  REQUIRE(sums.Merge(half).ok());
  CHECK(GetErrorInfo(sums.Merge(half)).code == "HISTOGRAM_OVERFLOW");
}

TEST_CASE("merging a histogram with itself doubles it", "[histogram]") {
  Histogram histogram = Of({5, 1'000, 1'000'000});
  Histogram twice = Of({5, 1'000, 1'000'000, 5, 1'000, 1'000'000});
  const Histogram& alias = histogram;
  REQUIRE(histogram.Merge(alias).ok());
  CHECK(histogram == twice);
}

TEST_CASE("ForEach visits what was recorded, in order", "[histogram]") {
  std::vector<Counter> seen;
  const Histogram histogram = Of({3, 3, 5'000, hist::kHighest});
  histogram.ForEach([&](uint32_t index, uint64_t count) { seen.push_back({index, count}); });
  CHECK(seen == std::vector<Counter>{{3, 2}, {hist::IndexOf(5'000), 1}, {hist::kCounters - 1, 1}});
}

TEST_CASE("a cleared histogram equals a new one", "[histogram]") {
  Histogram histogram = Of({5, 1'000'000});
  histogram.Clear();
  CHECK(histogram == Histogram());
  CHECK(Histogram() == histogram);
  histogram.Record(5);
  CHECK(histogram == Of({5}));
  CHECK_FALSE(histogram == Of({6}));
  CHECK_FALSE(histogram == Histogram());
}

TEST_CASE("moments that cannot be those of the counters are refused", "[histogram]") {
  const EncodedHistogram good = Of({100, 200, 5'000'000}).Encode();
  REQUIRE(Histogram::Decode(good).ok());
  auto with = [&](auto change) {
    EncodedHistogram bad = good;
    change(bad);
    return bad;
  };
  CheckCorrupt(with([](auto& e) { e.moments.count = 4; }), "counters hold 3 values but count is 4");
  CheckCorrupt(with([](auto& e) { e.moments.count = 2; }), "more than count 2");
  CheckCorrupt(with([](auto& e) { e.moments.count = 0; }), "count is 0");
  CheckCorrupt(with([](auto& e) { e.moments.count = UINT64_MAX; }), "beyond 2^63-1");
  CheckCorrupt(with([](auto& e) { e.counts.clear(); }), "counters hold 0 values");
  CheckCorrupt(with([](auto& e) { e.moments.min = 99; }), "min 99 is not in the first counter");
  CheckCorrupt(with([](auto& e) { e.moments.min = 101; }), "min 101");
  CheckCorrupt(with([](auto& e) { e.moments.max = 4'000'000; }), "max 4000000 is not in the last counter");
  CheckCorrupt(with([](auto& e) { e.moments.max = UINT64_MAX; }), "max");
  CheckCorrupt(with([](auto& e) { e.moments.sum = 300; }), "sum 300");
  CheckCorrupt(with([](auto& e) { e.moments.sum += 5'000; }), "sum");
  CheckCorrupt(with([](auto& e) { e.moments.sum_squares = 1; }), "sum of squares 1");
  CheckCorrupt(with([](auto& e) { e.moments.sum_squares = ~Uint128{0}; }), "sum of squares");
  CheckCorrupt(with([](auto& e) { e.moments.overflow = 1; }), "overflow 1");
  CheckCorrupt({.moments = {.max = 5}, .counts = {}}, "not those of an empty one");
  CheckCorrupt({.moments = {.min = 0}, .counts = {}}, "not those of an empty one");
}

TEST_CASE("min, max and overflow are checked against each other", "[histogram]") {
  EncodedHistogram one = Of({5'000'001}).Encode();
  one.moments.max = 5'000'002;  // same counter, but one value cannot be two
  CheckCorrupt(one, "contradict");
  EncodedHistogram crossed = Of({5'000'001, 5'000'003}).Encode();
  std::swap(crossed.moments.min, crossed.moments.max);
  CheckCorrupt(crossed, "contradict");
  EncodedHistogram over = Of({2 * kHour, 3 * kHour}).Encode();
  over.moments.min = 100;
  CheckCorrupt(over, "min 100");
  over = Of({2 * kHour, 3 * kHour}).Encode();
  over.moments.max = hist::kHighest;
  CheckCorrupt(over, "max");
  over = Of({2 * kHour}).Encode();
  over.moments.overflow = 2;
  CheckCorrupt(over, "overflow 2");
}

}  // namespace
}  // namespace muster
