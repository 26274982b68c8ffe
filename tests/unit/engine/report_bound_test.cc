#include "agent/engine/report_bound.h"

#include <catch2/catch.hpp>

#include "common/base/rng.h"

namespace muster {
namespace {

constexpr int64_t kWarmup = 2;

EncodedHistogram Encoded(const std::vector<uint64_t>& values) {
  Histogram histogram;
  for (uint64_t value : values) histogram.Record(value);
  return histogram.Encode();
}

KindDelta Reads(const std::vector<uint64_t>& responses) {
  KindDelta kind;
  kind.completed = responses.size();
  kind.bytes = 512 * responses.size();
  kind.response = Encoded(responses);
  return kind;
}

IntervalDelta Interval(int64_t k, std::vector<InitiatorDelta> initiators, bool drain = false) {
  IntervalDelta delta;
  delta.interval = k;
  delta.drain = drain;
  delta.initiators = std::move(initiators);
  return delta;
}

std::vector<HeldHistograms> Apply(ReportBound& bound, IntervalDelta& delta) {
  std::vector<HeldHistograms> due;
  REQUIRE(bound.Apply(delta, due).ok());
  return due;
}

TEST_CASE("within the bound a report is left as it is") {
  ReportBound bound(size_t{64} << 10, kWarmup);
  const IntervalDelta before = Interval(2, {{.initiator = 1, .kinds = {Reads({5, 6})}}});
  IntervalDelta delta = before;
  CHECK(Apply(bound, delta).empty());
  CHECK(delta == before);
  CHECK(bound.Flush().empty());
}

TEST_CASE("beyond the bound moments stay and counters come later, cut at every edge of the window") {
  ReportBound bound(0, kWarmup);
  std::vector<HeldHistograms> all;
  for (int64_t k = 0; k <= 4; ++k) {
    const bool drain = k == 4;
    const auto v = static_cast<uint64_t>(1000 * (k + 1));
    IntervalDelta delta = Interval(k, {{.initiator = 7, .outstanding = 3, .kinds = {Reads({v, v + 1, v + 2})}}}, drain);
    const IntervalDelta before = delta;
    std::vector<HeldHistograms> due = Apply(bound, delta);
    CHECK(due.size() == (k == 2 || drain ? 1u : 0u));
    all.insert(all.end(), due.begin(), due.end());
    const InitiatorDelta& left = delta.initiators[0];
    CHECK(left.held);
    CHECK(left.outstanding == 3);
    CHECK(left.kinds[0].completed == 3);
    CHECK(left.kinds[0].response.moments == before.initiators[0].kinds[0].response.moments);
    CHECK(left.kinds[0].response.counts.empty());
  }
  const std::vector<HeldHistograms> rest = bound.Flush();
  all.insert(all.end(), rest.begin(), rest.end());
  REQUIRE(all.size() == 3);
  const struct {
    int64_t first, last;
    bool drain;
    std::vector<uint64_t> values;
  } expected[] = {{0, 1, false, {1000, 1001, 1002, 2000, 2001, 2002}},
                  {2, 3, false, {3000, 3001, 3002, 4000, 4001, 4002}},
                  {4, 4, true, {5000, 5001, 5002}}};
  for (size_t i = 0; i < 3; ++i) {
    CHECK(all[i].initiator == 7);
    CHECK(all[i].first_interval == expected[i].first);
    CHECK(all[i].last_interval == expected[i].last);
    CHECK(all[i].drain == expected[i].drain);
    CHECK(all[i].intervals == expected[i].values.size() / 3);
    REQUIRE(all[i].kind.has_value());
    CHECK(all[i].kind->completed == expected[i].values.size());
    CHECK(all[i].kind->bytes == 512 * expected[i].values.size());
    CHECK(all[i].kind->response == Encoded(expected[i].values));
  }
  CHECK(bound.Flush().empty());
}

TEST_CASE("kinds, cohorts and lateness come one a message; errors keep their codes") {
  ReportBound bound(0, 0);
  for (int64_t k = 0; k < 2; ++k) {
    KindDelta due = Reads({10});
    due.due_in_window = true;
    due.wait = Encoded({3});
    due.service = Encoded({7});
    due.errors = {{.outcome = Outcome::kIo, .native_code = static_cast<int>(k), .count = 1, .response = Encoded({9})},
                  {.outcome = Outcome::kTimeout, .native_code = 110, .count = 2, .response = Encoded({8, 8})}};
    KindDelta writes = Reads({20, 30});
    writes.kind = OpKind::kWrite;
    IntervalDelta delta =
        Interval(k, {{.initiator = 1, .kinds = {Reads({40}), due, writes}, .lateness = Encoded({2, 3})}});
    CHECK(Apply(bound, delta).empty());
    CHECK(delta.initiators[0].lateness.counts.empty());
    CHECK(delta.initiators[0].kinds[1].errors[0].response.counts.empty());
    CHECK(delta.initiators[0].kinds[1].errors[0].count == 1);
  }
  const std::vector<HeldHistograms> held = bound.Flush();
  REQUIRE(held.size() == 4);
  CHECK(held[0].kind->response.moments.count == 2);
  CHECK(held[1].kind->due_in_window);
  CHECK(held[1].kind->wait == Encoded({3, 3}));
  REQUIRE(held[1].kind->errors.size() == 3);
  CHECK(held[1].kind->errors[1].count == 4);
  CHECK(held[1].kind->errors[1].response == Encoded({8, 8, 8, 8}));
  CHECK(held[2].kind->kind == OpKind::kWrite);
  CHECK_FALSE(held[3].kind.has_value());
  CHECK(held[3].lateness == Encoded({2, 3, 2, 3}));
}

TEST_CASE("only the initiator that passes the bound is held, and only while it does") {
  Rng rng(3);
  std::vector<uint64_t> many;
  for (int i = 0; i < 4000; ++i) many.push_back(1000 + rng.Below(1'000'000));
  const InitiatorDelta large{.initiator = 1, .kinds = {Reads(many)}};
  const InitiatorDelta small{.initiator = 2, .kinds = {Reads({5})}};
  const size_t size = SizeOnWire(large);
  REQUIRE(SizeOnWire(small) < size);
  ReportBound exact(size, 0);
  IntervalDelta delta = Interval(0, {large, small});
  Apply(exact, delta);
  CHECK_FALSE(delta.initiators[0].held);
  ReportBound below(size - 1, 0);
  Apply(below, delta);
  CHECK(delta.initiators[0].held);
  CHECK_FALSE(delta.initiators[1].held);
  IntervalDelta next = Interval(1, {InitiatorDelta{.initiator = 1, .kinds = {Reads({1})}}, small});
  Apply(below, next);
  CHECK_FALSE(next.initiators[0].held);
  const std::vector<HeldHistograms> held = below.Flush();
  REQUIRE(held.size() == 1);
  CHECK(held[0].last_interval == 0);
  CHECK(held[0].kind->completed == many.size());
}

TEST_CASE("an initiator without a value has nothing to leave out") {
  ReportBound bound(0, 0);
  IntervalDelta delta = Interval(0, {InitiatorDelta{.initiator = 1}});
  Apply(bound, delta);
  CHECK_FALSE(delta.initiators[0].held);
}

}  // namespace
}  // namespace muster
