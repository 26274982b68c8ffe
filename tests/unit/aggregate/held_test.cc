// Histograms that come merged over the window give the figures that interval histograms give, and nothing else passes.
#include <catch2/catch.hpp>

#include "common/base/status.h"
#include "tests/unit/aggregate/deltas.h"

namespace muster::test {
namespace {

std::string CodeOf(const absl::Status& status) {
  return GetErrorInfo(status).code;
}

// Warm-up 1, window 2, drain; one read kind.
const std::vector<IntervalDelta> kDeltas = {
    Interval(0, {Initiator(0, {Ops(OpKind::kRead, {900'000, 7})})}),
    Interval(1, {Initiator(0, {Ops(OpKind::kRead, {100, 200, 300})})}),
    Interval(2, {Initiator(0, {Ops(OpKind::kRead, {400, 5'000})})}),
    Drain(3, {Initiator(0, {Ops(OpKind::kRead, {70'000})})}),
};

struct Phase {
  PhaseAggregator aggregator{Shape({{"a", {0}}}, 1, 2, 1.0)};
  void Deltas(bool held) {
    for (const IntervalDelta& delta : kDeltas) REQUIRE(aggregator.Add("a", held ? Stripped(delta) : delta).ok());
  }
  absl::Status Warmup() { return aggregator.AddHeld("a", Held(0, 0, 0, Ops(OpKind::kRead, {900'000, 7}))); }
  absl::Status Window() {
    return aggregator.AddHeld("a", Held(0, 1, 2, Ops(OpKind::kRead, {100, 200, 300, 400, 5'000})));
  }
  absl::Status Rest() {
    HeldHistograms held = Held(0, 3, 3, Ops(OpKind::kRead, {70'000}));
    held.drain = true;
    return aggregator.AddHeld("a", held);
  }
  StepFigures Seal() {
    REQUIRE(aggregator.AddTotals("a", TotalsOf(kDeltas)).ok());
    return aggregator.Seal(2);
  }
};

TEST_CASE("held histograms give exactly the figures of interval histograms") {
  Phase whole;
  whole.Deltas(false);
  const StepFigures expected = whole.Seal();
  REQUIRE(expected.sums_error.ok());
  CHECK(expected.held == 0);
  Phase phase;
  phase.Deltas(true);
  const auto live = phase.aggregator.Live();
  REQUIRE(live.has_value());
  CHECK(live->held);
  CHECK(live->p99 == 0);
  CHECK(live->max == 5'000);
  const std::vector<FleetInterval> intervals = phase.aggregator.TakeComplete();
  REQUIRE(intervals.size() == 3);
  for (const FleetInterval& interval : intervals) {
    CHECK(interval.held);
    CHECK(interval.kinds[0].completed > 0);
    CHECK(interval.kinds[0].response.count() == 0);
  }
  CHECK(intervals[1].kinds[0].response_max == 300);
  CHECK(intervals[1].initiators[0].kinds[0].response.moments.sum == 600);
  REQUIRE(phase.Warmup().ok());
  REQUIRE(phase.Window().ok());
  REQUIRE(phase.Rest().ok());
  const StepFigures figures = phase.Seal();
  INFO(figures.sums_error);
  CHECK(figures.sums_error.ok());
  CHECK(figures.held == 2);
  CHECK(figures.held_uncounted == 0);
  CHECK(figures.held_owed == 0);
  for (const auto& [a, b] :
       {std::pair(&figures.fleet, &expected.fleet), std::pair(&figures.initiators[0], &expected.initiators[0])}) {
    REQUIRE(a->kinds.size() == b->kinds.size());
    for (size_t i = 0; i < a->kinds.size(); ++i) {
      CHECK(a->kinds[i].completed == b->kinds[i].completed);
      CHECK(a->kinds[i].response == b->kinds[i].response);
      CHECK(a->kinds[i].wait == b->kinds[i].wait);
      CHECK(a->kinds[i].service == b->kinds[i].service);
      CHECK(a->kinds[i].response_max == b->kinds[i].response_max);
    }
  }
  CHECK(figures.fleet.kinds[0].response.count() == 5);
}

TEST_CASE("open loop: held cohorts, lateness, ages and failures give the same figures") {
  KindDelta due = WaitedOps(OpKind::kRead, {{10, 90}, {0, 50}}, true);
  due.errors = {Failure(Outcome::kIo, 5, {33, 44})};
  KindDelta late = WaitedOps(OpKind::kRead, {{5, 500}}, true);
  late.unfinished = Encoded({9'000});
  IntervalDelta window = Interval(0, {Initiator(0, {due})});
  window.initiators[0].lateness = Encoded({1, 2, 3});
  const IntervalDelta drain = Drain(1, {Initiator(0, {late})});
  PhaseShape shape = Shape({{"a", {0}}}, 0, 1, 1.0);
  shape.workload.pacing = Pacing::kFixed;
  shape.workload.rate = 100;
  std::vector<StepFigures> figures;
  for (const bool held : {false, true}) {
    PhaseAggregator aggregator(shape);
    REQUIRE(aggregator.Add("a", held ? Stripped(window) : window).ok());
    if (held) {
      REQUIRE(aggregator.AddHeld("a", Held(0, 0, 0, due)).ok());
      HeldHistograms lateness{.initiator = 0, .intervals = 1, .lateness = Encoded({1, 2, 3})};
      REQUIRE(aggregator.AddHeld("a", lateness).ok());
    }
    REQUIRE(aggregator.Add("a", held ? Stripped(drain) : drain).ok());
    if (held) {
      HeldHistograms rest = Held(0, 1, 1, late);
      rest.drain = true;
      REQUIRE(aggregator.AddHeld("a", rest).ok());
    }
    REQUIRE(aggregator.AddTotals("a", TotalsOf({window, drain})).ok());
    figures.push_back(aggregator.Seal(0));
    INFO(figures.back().sums_error);
    CHECK(figures.back().sums_error.ok());
  }
  const KindFigures& a = figures[0].fleet.kinds[0];
  const KindFigures& b = figures[1].fleet.kinds[0];
  CHECK(a.response.count() == 4);
  CHECK(a.response == b.response);
  CHECK(a.wait == b.wait);
  CHECK(a.service == b.service);
  CHECK(a.response_max == b.response_max);
  CHECK(figures[0].fleet.lateness == figures[1].fleet.lateness);
  REQUIRE(figures[1].errors.size() == 1);
  CHECK(figures[1].errors[0].count == 2);
  CHECK(figures[1].errors[0].response == figures[0].errors[0].response);
}

TEST_CASE("held histograms that are not what was left out are refused") {
  const auto sealed = [](const HeldHistograms& window) {
    Phase phase;
    phase.Deltas(true);
    REQUIRE(phase.Warmup().ok());
    REQUIRE(phase.aggregator.AddHeld("a", window).ok());
    REQUIRE(phase.Rest().ok());
    return phase.Seal();
  };
  const HeldHistograms right = Held(0, 1, 2, Ops(OpKind::kRead, {100, 200, 300, 400, 5'000}));
  REQUIRE(sealed(right).sums_error.ok());
  // One nanosecond, one operation, one byte, another interval, another kind.
  HeldHistograms wrong = Held(0, 1, 2, Ops(OpKind::kRead, {100, 200, 300, 400, 5'001}));
  CHECK(CodeOf(sealed(wrong).sums_error) == "SUMS_MISMATCH");
  CHECK(sealed(wrong).held_owed == 1);
  wrong = Held(0, 1, 2, Ops(OpKind::kRead, {100, 200, 300, 400}));
  CHECK(CodeOf(sealed(wrong).sums_error) == "SUMS_MISMATCH");
  wrong = right;
  ++wrong.kind->bytes;
  CHECK(CodeOf(sealed(wrong).sums_error) == "SUMS_MISMATCH");
  wrong = right;
  wrong.first_interval = 2;
  CHECK(CodeOf(sealed(wrong).sums_error) == "SUMS_MISMATCH");
  wrong = right;
  wrong.kind->kind = OpKind::kWrite;
  CHECK(CodeOf(sealed(wrong).sums_error) == "SUMS_MISMATCH");
  wrong = right;
  wrong.kind->due_in_window = true;
  CHECK(CodeOf(sealed(wrong).sums_error) == "SUMS_MISMATCH");
}

TEST_CASE("left out and never delivered is a mismatch; of a lost agent it is said") {
  Phase phase;
  phase.Deltas(true);
  REQUIRE(phase.Warmup().ok());
  REQUIRE(phase.Rest().ok());
  StepFigures figures = phase.Seal();
  CHECK(CodeOf(figures.sums_error) == "SUMS_MISMATCH");
  CHECK(figures.held_owed == 1);

  Phase lost;
  lost.Deltas(true);
  lost.aggregator.Lose("a");
  figures = lost.aggregator.Seal(2);
  CHECK(figures.sums_error.ok());
  CHECK(figures.held_owed == 3);
  CHECK(figures.fleet.kinds[0].completed == 5);
  CHECK(figures.fleet.kinds[0].response.count() == 0);
}

TEST_CASE("damaged, doubled and late held histograms are typed errors that merge nothing") {
  Phase phase;
  phase.Deltas(true);
  const HeldHistograms right = Held(0, 1, 2, Ops(OpKind::kRead, {100, 200, 300, 400, 5'000}));
  const auto refused = [&](const std::string& agent, auto&& change) {
    HeldHistograms bad = right;
    change(bad);
    return CodeOf(phase.aggregator.AddHeld(agent, bad));
  };
  CHECK(refused("b", [](HeldHistograms&) {}) == "REPORT_UNKNOWN_AGENT");
  CHECK(refused("a", [](HeldHistograms& h) { h.initiator = 3; }) == "REPORT_UNKNOWN_INITIATOR");
  CHECK(refused("a", [](HeldHistograms& h) { h.first_interval = 0; }) == "REPORT_DAMAGED");  // over the edge
  CHECK(refused("a", [](HeldHistograms& h) { h.last_interval = 0; }) == "REPORT_DAMAGED");
  CHECK(refused("a", [](HeldHistograms& h) { h.kind.reset(); }) == "REPORT_DAMAGED");
  CHECK(refused("a", [](HeldHistograms& h) { h.lateness = Encoded({1}); }) == "REPORT_DAMAGED");
  CHECK(refused("a", [](HeldHistograms& h) { h.kind->kind = static_cast<OpKind>(9); }) == "REPORT_DAMAGED");
  CHECK(refused("a", [](HeldHistograms& h) { h.kind->response.counts.pop_back(); }) == "HISTOGRAM_CORRUPT");
  REQUIRE(phase.Window().ok());
  CHECK(CodeOf(phase.Window()) == "REPORT_DUPLICATE_HELD");
  REQUIRE(phase.Warmup().ok());
  REQUIRE(phase.Rest().ok());
  CHECK(phase.Seal().sums_error.ok());
  CHECK(CodeOf(phase.Window()) == "REPORT_LATE");
  // A delta that says its histograms are left out has none.
  PhaseAggregator other(Shape({{"a", {0}}}, 0, 1, 1.0));
  IntervalDelta both = Interval(0, {Initiator(0, {Ops(OpKind::kRead, {1})})});
  both.initiators[0].held = true;
  CHECK(CodeOf(other.Add("a", both)) == "REPORT_DAMAGED");
}

TEST_CASE("held intervals that do not count for rates are counted") {
  // Agent b has a gap in interval 1 of the window: a's part of it is in the merged histogram and in no rate.
  PhaseAggregator aggregator(Shape({{"a", {0}}, {"b", {1}}}, 0, 2, 1.0));
  const std::vector<IntervalDelta> a = {Interval(0, {Initiator(0, {Ops(OpKind::kRead, {10})})}),
                                        Interval(1, {Initiator(0, {Ops(OpKind::kRead, {20})})})};
  const std::vector<IntervalDelta> b = {Interval(0, {Initiator(1, {Ops(OpKind::kRead, {30})})})};
  for (const IntervalDelta& delta : a) REQUIRE(aggregator.Add("a", Stripped(delta)).ok());
  for (const IntervalDelta& delta : b) REQUIRE(aggregator.Add("b", delta).ok());
  REQUIRE(aggregator.Add("b", Gap(1)).ok());
  REQUIRE(aggregator.AddHeld("a", Held(0, 0, 1, Ops(OpKind::kRead, {10, 20}))).ok());
  REQUIRE(aggregator.AddTotals("a", TotalsOf(a)).ok());
  REQUIRE(aggregator.AddTotals("b", TotalsOf(b)).ok());
  const StepFigures figures = aggregator.Seal(1);
  CHECK(figures.sums_error.ok());
  CHECK(figures.held == 1);
  CHECK(figures.held_uncounted == 1);
  CHECK(figures.fleet.kinds[0].completed == 2);
  CHECK(figures.fleet.kinds[0].response.count() == 3);
}

}  // namespace
}  // namespace muster::test
