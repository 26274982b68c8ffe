#include <catch2/catch.hpp>

#include "common/base/status.h"
#include "tests/unit/aggregate/deltas.h"

namespace muster::test {
namespace {

constexpr OpKind kRead = OpKind::kRead;
constexpr OpKind kWrite = OpKind::kWrite;

TEST_CASE("closed loop: the window alone makes rates and latencies, by interval") {
  PhaseAggregator aggregator(Shape({{"a", {0}}, {"b", {1}}}, 1, 2));
  std::vector<IntervalDelta> a = {
      Interval(0, {Initiator(0, {Ops(kRead, {900'000})})}),  // warm-up
      Interval(1, {Initiator(0, {Ops(kRead, {1000, 2000}), Ops(kWrite, {5000})})}),
      Interval(2, {Initiator(0, {Ops(kRead, {3000})})}),
      Drain(3, {Initiator(0, {Ops(kRead, {777'000})})}),
  };
  std::vector<IntervalDelta> b = {
      Interval(0, {Initiator(1, {Ops(kRead, {1})})}), Interval(1, {Initiator(1, {Ops(kWrite, {6000, 7000})})}),
      Interval(2, {Initiator(1, {})}),  // a stall: empty, not missing
  };
  a[1].initiators[0].offered_integral = 16 * Uint128{kSecond};
  a[2].initiators[0].offered_integral = 8 * Uint128{kSecond};
  a[1].initiators[0].wire_integral = 4 * Uint128{kSecond};
  a[1].initiators[0].time_full = kSecond / 2;
  a[1].cpu_nanos = kSecond;
  a[2].edge_error = 17;
  b[1].stamp_error = 23;
  b[2].poll_gap_max = 29;
  a[0].edge_error = 1'000'000;  // warm-up: not a figure of the window
  for (const auto& delta : a) REQUIRE(aggregator.Add("a", delta).ok());
  for (const auto& delta : b) REQUIRE(aggregator.Add("b", delta).ok());
  REQUIRE(aggregator.AddTotals("a", TotalsOf(a)).ok());
  REQUIRE(aggregator.AddTotals("b", TotalsOf(b)).ok());
  const StepFigures figures = aggregator.Seal(2);

  CHECK(figures.sums_error.ok());
  CHECK(figures.intervals == 2);
  CHECK(figures.intervals_asked == 2);
  CHECK(figures.window() == 2 * kSecond);
  CHECK(figures.missing.empty());
  CHECK(figures.initiators_asked == 2);
  CHECK(figures.initiators_heard == 2);
  const KindFigures& pooled = Row(figures.fleet, std::nullopt);
  CHECK(pooled.completed == 6);
  CHECK(pooled.bytes == 6 * 4096);
  CHECK(pooled.response.count() == 6);
  CHECK(pooled.response.moments().sum == 1000 + 2000 + 3000 + 5000 + 6000 + 7000);
  CHECK(pooled.response.moments().max == 7000);
  CHECK(pooled.response_max == 777'000);  // drained
  CHECK(pooled.wait.count() == 6);
  CHECK(pooled.wait.moments().max == 0);
  CHECK(pooled.service == pooled.response);
  CHECK(Row(figures.fleet, kRead).completed == 3);
  CHECK(Row(figures.fleet, kWrite).completed == 3);
  CHECK(Row(figures.fleet, kWrite).response.moments().min == 5000);
  CHECK(Row(figures.fleet, kWrite).response_max == 7000);
  CHECK(figures.fleet.kinds.front().kind == std::nullopt);
  REQUIRE(figures.fleet.kinds.size() == 3);

  REQUIRE(figures.initiators.size() == 2);
  CHECK(figures.initiators[0].name == "0");
  CHECK(figures.initiators[1].agent == "b");
  CHECK(Row(figures.initiators[1], kWrite).completed == 2);
  CHECK(Row(figures.initiators[1], kRead).completed == 0);
  CHECK(figures.fleet.asked_depth == 32);
  CHECK(figures.initiators[0].asked_depth == 16);
  CHECK(figures.initiators[0].achieved_depth == 12);
  CHECK(figures.fleet.achieved_depth == 12);
  CHECK(figures.fleet.wire_depth == 2);
  CHECK(figures.initiators[0].time_full_share == 0.25);
  CHECK(figures.fleet.time_full_share == 0.125);
  CHECK(figures.cpu_share == 0.5);
  CHECK(figures.edge_error == 17);
  CHECK(figures.stamp_error == 23);
  CHECK(figures.poll_gap_max == 29);
}

TEST_CASE("waits spelled out in some deltas pool with waits left out in others") {
  PhaseAggregator aggregator(Shape({{"a", {0}}}, 0, 2, 1.0));
  std::vector<IntervalDelta> a = {
      Interval(0, {Initiator(0, {Ops(kRead, {100, 200})})}),
      Interval(1, {Initiator(0, {WaitedOps(kRead, {{.wait = 50, .service = 300}}, false)})}),
  };
  for (const auto& delta : a) REQUIRE(aggregator.Add("a", delta).ok());
  REQUIRE(aggregator.AddTotals("a", TotalsOf(a)).ok());
  const StepFigures figures = aggregator.Seal(1);
  CHECK(figures.sums_error.ok());
  const KindFigures& read = Row(figures.fleet, kRead);
  CHECK(read.response.moments().sum == 650);
  CHECK(read.wait.count() == 3);
  CHECK(read.wait.moments().sum == 50);
  CHECK(read.service.moments().sum == 600);
}

TEST_CASE("failed operations are counted by class, in no rate and in no success histogram") {
  PhaseAggregator aggregator(Shape({{"a", {0}}}, 1, 1, 1.0));
  KindDelta warm = Ops(kRead, {10});
  warm.errors.push_back(Failure(Outcome::kIo, 5, {400}));
  KindDelta window = Ops(kRead, {20, 30});
  window.errors.push_back(Failure(Outcome::kTimeout, 110, {90'000'000'000}));
  window.errors.push_back(Failure(Outcome::kIo, 5, {500, 600}));
  KindDelta drain = Ops(kRead, {});
  drain.errors.push_back(Failure(Outcome::kIo, 5, {95'000'000'000}));
  std::vector<IntervalDelta> a = {Interval(0, {Initiator(0, {warm})}), Interval(1, {Initiator(0, {window})}),
                                  Drain(2, {Initiator(0, {drain})})};
  for (const auto& delta : a) REQUIRE(aggregator.Add("a", delta).ok());
  REQUIRE(aggregator.AddTotals("a", TotalsOf(a)).ok());
  const StepFigures figures = aggregator.Seal(1);
  CHECK(figures.sums_error.ok());
  const KindFigures& read = Row(figures.fleet, kRead);
  CHECK(read.completed == 2);
  CHECK(read.failed == 3);
  CHECK(read.response.count() == 2);
  CHECK(read.response.moments().max == 30);
  // It was outstanding at the end and lasted this long, though it then failed.
  CHECK(read.response_max == 95'000'000'000);
  REQUIRE(figures.errors.size() == 2);
  CHECK(figures.errors[0].outcome == Outcome::kIo);
  CHECK(figures.errors[0].native_code == 5);
  CHECK(figures.errors[0].count == 4);
  CHECK(figures.errors[0].response.count() == 4);
  CHECK(figures.errors[1].outcome == Outcome::kTimeout);
  CHECK(figures.errors[1].count == 1);
}

TEST_CASE("gaps and absent initiators make an interval missing and are named; rates leave it out") {
  PhaseAggregator aggregator(Shape({{"a", {0, 2}}, {"b", {1}}}, 0, 4, 1.0));
  auto both = [](int64_t k) {
    return Interval(k, {Initiator(0, {Ops(kRead, {100})}), Initiator(2, {Ops(kRead, {100})})});
  };
  std::vector<IntervalDelta> a = {both(0), both(1), Interval(2, {Initiator(0, {Ops(kRead, {100})})}), both(3)};
  std::vector<IntervalDelta> b = {Interval(0, {Initiator(1, {Ops(kRead, {100})})}), Gap(1),
                                  Interval(2, {Initiator(1, {Ops(kRead, {100})})}),
                                  Interval(3, {Initiator(1, {Ops(kRead, {100})})})};
  b[0].initiators[0].outstanding = 5;
  for (const auto& delta : a) REQUIRE(aggregator.Add("a", delta).ok());
  for (const auto& delta : b) REQUIRE(aggregator.Add("b", delta).ok());
  REQUIRE(aggregator.AddTotals("a", TotalsOf(a)).ok());
  REQUIRE(aggregator.AddTotals("b", TotalsOf(b)).ok());
  const StepFigures figures = aggregator.Seal(3);
  CHECK(figures.sums_error.ok());
  CHECK(figures.intervals == 2);
  CHECK(figures.missing_count == 2);
  CHECK(figures.missing == std::vector<std::string>{"agent b interval 1 (gap, 5 operations outstanding across it)",
                                                    "agent a interval 2 (initiator 2 absent)"});
  CHECK(Row(figures.fleet, std::nullopt).completed == 6);
  // Initiator rows are over the same intervals, so that they add up to the fleet.
  for (const GroupFigures& group : figures.initiators) CHECK(Row(group, std::nullopt).completed == 2);
}

TEST_CASE("late intervals are merged until the phase is sealed, duplicates are refused") {
  PhaseAggregator aggregator(Shape({{"a", {0}}, {"b", {1}}}, 0, 2, 1.0));
  const IntervalDelta a0 = Interval(0, {Initiator(0, {Ops(kRead, {100})})});
  const IntervalDelta a1 = Interval(1, {Initiator(0, {Ops(kRead, {200})})});
  const IntervalDelta b0 = Interval(0, {Initiator(1, {Ops(kRead, {300})})});
  const IntervalDelta b1 = Interval(1, {Initiator(1, {Ops(kRead, {400})})});
  REQUIRE(aggregator.Add("a", a0).ok());
  REQUIRE(aggregator.Add("a", a1).ok());
  CHECK(aggregator.TakeComplete().empty());
  CHECK(GetErrorInfo(aggregator.Add("a", a1)).code == "REPORT_DUPLICATE_INTERVAL");
  REQUIRE(aggregator.Add("b", b0).ok());
  CHECK(aggregator.TakeComplete().size() == 1);
  CHECK(GetErrorInfo(aggregator.Add("b", b0)).code == "REPORT_DUPLICATE_INTERVAL");
  REQUIRE(aggregator.Add("b", b1).ok());
  REQUIRE(aggregator.Add("b", Drain(2, {})).ok());
  CHECK(GetErrorInfo(aggregator.Add("b", Drain(2, {}))).code == "REPORT_DUPLICATE_INTERVAL");
  const auto complete = aggregator.TakeComplete();
  REQUIRE(complete.size() == 1);
  CHECK(complete[0].interval == 1);
  CHECK(complete[0].kinds[0].response.moments().sum == 600);
  CHECK(complete[0].initiators == std::vector<InitiatorDelta>{a1.initiators[0], b1.initiators[0]});
  REQUIRE(aggregator.AddTotals("a", TotalsOf({a0, a1})).ok());
  REQUIRE(aggregator.AddTotals("b", TotalsOf({b0, b1})).ok());
  CHECK(GetErrorInfo(aggregator.AddTotals("b", {})).code == "REPORT_DUPLICATE_TOTALS");
  const StepFigures figures = aggregator.Seal(1);
  CHECK(figures.sums_error.ok());
  CHECK(Row(figures.fleet, kRead).response.moments().sum == 1000);
  CHECK(GetErrorInfo(aggregator.Add("b", Interval(2, {}))).code == "REPORT_LATE");
}

TEST_CASE("what does not belong is refused whole") {
  PhaseAggregator aggregator(Shape({{"a", {0}}, {"b", {1}}}, 0, 1, 1.0));
  const IntervalDelta good = Interval(0, {Initiator(0, {Ops(kRead, {100})})});
  CHECK(GetErrorInfo(aggregator.Add("c", good)).code == "REPORT_UNKNOWN_AGENT");
  CHECK(GetErrorInfo(aggregator.AddTotals("c", {})).code == "REPORT_UNKNOWN_AGENT");
  CHECK(GetErrorInfo(aggregator.Add("b", good)).code == "REPORT_UNKNOWN_INITIATOR");
  CHECK(GetErrorInfo(aggregator.AddTotals("b", TotalsOf({good}))).code == "REPORT_UNKNOWN_INITIATOR");
  CHECK(GetErrorInfo(aggregator.Add("a", Interval(0, {good.initiators[0], good.initiators[0]}))).code ==
        "REPORT_DUPLICATE_INITIATOR");
  CHECK(GetErrorInfo(aggregator.Add("a", Interval(-1, {}))).code == "REPORT_DAMAGED");
  IntervalDelta corrupt = good;
  corrupt.initiators[0].kinds.push_back(Ops(kRead, {5, 6}));
  corrupt.initiators[0].kinds[1].response.moments.count = 3;
  CHECK(GetErrorInfo(aggregator.Add("a", corrupt)).code == "HISTOGRAM_CORRUPT");
  IntervalDelta huge = good;
  huge.initiators[0].kinds[0].response.moments.sum = UINT64_MAX - 10;
  huge.initiators[0].kinds.push_back(Ops(kRead, {500}));
  CHECK_FALSE(aggregator.Add("a", huge).ok());
  // Nothing of all that was merged, and the interval is still open for the real one.
  REQUIRE(aggregator.Add("a", good).ok());
  REQUIRE(aggregator.Add("b", Interval(0, {Initiator(1, {})})).ok());
  REQUIRE(aggregator.AddTotals("a", TotalsOf({good})).ok());
  REQUIRE(aggregator.AddTotals("b", {}).ok());
  const StepFigures figures = aggregator.Seal(0);
  CHECK(figures.sums_error.ok());
  CHECK(Row(figures.fleet, kRead).completed == 1);
  CHECK(Row(figures.fleet, kRead).response.moments().sum == 100);
}

TEST_CASE("a lost agent ends the window for all; what both delivered stays") {
  PhaseAggregator aggregator(Shape({{"a", {0}}, {"b", {1}}}, 0, 4, 1.0));
  std::vector<IntervalDelta> a;
  for (int64_t k = 0; k < 3; ++k) a.push_back(Interval(k, {Initiator(0, {Ops(kRead, {100})})}));
  REQUIRE(aggregator.Add("b", Interval(0, {Initiator(1, {Ops(kRead, {300})})})).ok());
  for (const auto& delta : a) REQUIRE(aggregator.Add("a", delta).ok());
  CHECK(aggregator.TakeComplete().size() == 1);
  aggregator.Lose("b");
  CHECK(aggregator.TakeComplete().empty());  // what it had measured may still come
  REQUIRE(aggregator.AddTotals("a", TotalsOf(a)).ok());
  const StepFigures figures = aggregator.Seal(2);
  CHECK(aggregator.TakeComplete().size() == 2);
  CHECK(GetErrorInfo(aggregator.Add("b", Interval(1, {Initiator(1, {})}))).code == "REPORT_LATE");
  CHECK(figures.sums_error.ok());
  CHECK(figures.lost_agents == std::vector<std::string>{"b"});
  CHECK(figures.intervals == 1);
  CHECK(figures.missing == std::vector<std::string>{"agent b interval 1 (lost)", "agent b interval 2 (lost)"});
  CHECK(Row(figures.fleet, kRead).completed == 2);
  CHECK(Row(figures.initiators[0], kRead).completed == 1);
}

TEST_CASE("what a lost agent had measured counts when it comes before the phase is sealed") {
  PhaseAggregator aggregator(Shape({{"a", {0}}, {"b", {1}}}, 0, 4, 1.0));
  std::vector<IntervalDelta> a, b;
  for (int64_t k = 0; k < 3; ++k) a.push_back(Interval(k, {Initiator(0, {Ops(kRead, {100})})}));
  for (int64_t k = 0; k < 2; ++k) b.push_back(Interval(k, {Initiator(1, {Ops(kRead, {300})})}));
  for (const auto& delta : a) REQUIRE(aggregator.Add("a", delta).ok());
  aggregator.Lose("b");
  for (const auto& delta : b) REQUIRE(aggregator.Add("b", delta).ok());
  CHECK(aggregator.TakeComplete().size() == 2);
  REQUIRE(aggregator.AddTotals("a", TotalsOf(a)).ok());
  REQUIRE(aggregator.AddTotals("b", TotalsOf(b)).ok());
  const StepFigures figures = aggregator.Seal(2);
  CHECK(figures.sums_error.ok());
  CHECK(figures.lost_agents == std::vector<std::string>{"b"});
  CHECK(figures.intervals == 2);
  CHECK(figures.missing == std::vector<std::string>{"agent b interval 2 (lost)"});
  CHECK(Row(figures.fleet, kRead).completed == 4);
  CHECK(Row(figures.initiators[1], kRead).completed == 2);
}

TEST_CASE("missing intervals are named up to 64 and counted beyond") {
  PhaseAggregator aggregator(Shape({{"a", {0}}}, 10, 100, 1.0));
  aggregator.Lose("a");
  const StepFigures figures = aggregator.Seal(200);
  CHECK(figures.intervals == 0);
  CHECK(figures.window() == 0);
  CHECK(figures.missing.size() == 64);
  CHECK(figures.missing_count == 100);
  CHECK(figures.missing.front() == "agent a interval 10 (lost)");
  CHECK(figures.initiators_heard == 0);
}

TEST_CASE("a phase cancelled in its warm-up has no figures and nothing missing") {
  PhaseAggregator aggregator(Shape({{"a", {0}}}, 5, 10, 1.0));
  std::vector<IntervalDelta> a = {Interval(0, {Initiator(0, {Ops(kRead, {100})})}),
                                  Drain(1, {Initiator(0, {Ops(kRead, {5000})})})};
  for (const auto& delta : a) REQUIRE(aggregator.Add("a", delta).ok());
  REQUIRE(aggregator.AddTotals("a", TotalsOf(a)).ok());
  const StepFigures figures = aggregator.Seal(0);
  CHECK(figures.sums_error.ok());
  CHECK(figures.intervals == 0);
  CHECK(figures.missing_count == 0);
  CHECK(figures.fleet.achieved_depth == 0);
  CHECK(Row(figures.fleet, kRead).completed == 0);
  CHECK(Row(figures.fleet, kRead).response_max == 0);
}

TEST_CASE("a window cut short by a cancel is the part that was measured") {
  PhaseAggregator aggregator(Shape({{"a", {0}}}, 1, 10, 1.0));
  std::vector<IntervalDelta> a;
  for (int64_t k = 0; k < 4; ++k) a.push_back(Interval(k, {Initiator(0, {Ops(kRead, {100})})}));
  for (const auto& delta : a) REQUIRE(aggregator.Add("a", delta).ok());
  REQUIRE(aggregator.AddTotals("a", TotalsOf(a)).ok());
  const StepFigures figures = aggregator.Seal(3);
  CHECK(figures.sums_error.ok());
  CHECK(figures.intervals == 3);
  CHECK(figures.intervals_asked == 10);
  CHECK(figures.missing_count == 0);
}

}  // namespace
}  // namespace muster::test
