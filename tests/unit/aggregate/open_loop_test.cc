#include <catch2/catch.hpp>

#include "tests/unit/aggregate/deltas.h"

namespace muster::test {
namespace {

constexpr OpKind kRead = OpKind::kRead;

PhaseShape OpenShape(std::map<std::string, std::vector<uint32_t>> agents, uint32_t warmup, uint32_t window) {
  PhaseShape shape = Shape(std::move(agents), warmup, window, 1.0);
  shape.workload.pacing = Pacing::kPoisson;
  shape.workload.rate = 1000;
  return shape;
}

TEST_CASE("open loop: rates by done, latencies of what was due in the window, followed through the drain") {
  PhaseAggregator aggregator(OpenShape({{"a", {0}}}, 1, 2));
  KindDelta drained = WaitedOps(kRead, {{.wait = 4000, .service = 50'000}}, true);
  drained.unfinished = Encoded({8'000'000});
  KindDelta never = WaitedOps(kRead, {}, false);
  never.unfinished = Encoded({9'000'000});  // due before the window: counts for max alone
  std::vector<IntervalDelta> a = {
      Interval(0, {Initiator(0, {WaitedOps(kRead, {{.wait = 1, .service = 10}}, false)})}),
      // Due in the warm-up and done in the window: in its rate, not in its latencies.
      Interval(1, {Initiator(0, {WaitedOps(kRead, {{.wait = 70'000, .service = 10}}, false),
                                 WaitedOps(kRead, {{.wait = 100, .service = 1000}}, true)})}),
      Interval(2,
               {Initiator(0, {WaitedOps(kRead, {{.wait = 0, .service = 2000}, {.wait = 0, .service = 3000}}, true)})}),
      Drain(3, {Initiator(0, {drained, never})}),
  };
  a[1].initiators[0].lateness = Encoded({5, 6});
  a[0].initiators[0].lateness = Encoded({900});
  for (const auto& delta : a) REQUIRE(aggregator.Add("a", delta).ok());
  PhaseTotals totals = TotalsOf(a);
  totals.straggle_count = 3;
  totals.stragglers = {{.initiator = 0, .kind = kRead, .age_at_end = 10, .final_age = 54'000, .ended = true},
                       {.initiator = 0, .kind = kRead, .age_at_end = 20, .final_age = 9'000'000, .ended = false}};
  totals.overloaded = true;
  REQUIRE(aggregator.AddTotals("a", totals).ok());
  const StepFigures figures = aggregator.Seal(2);
  CHECK(figures.sums_error.ok());
  const KindFigures& read = Row(figures.fleet, kRead);
  CHECK(read.completed == 4);         // done in the window
  CHECK(read.response.count() == 5);  // due in the window: three done in it, one drained, one unfinished
  CHECK(read.response.moments().sum == 1100 + 2000 + 3000 + 54'000 + 8'000'000);
  CHECK(read.wait.count() == 4);  // nobody knows the wait of an operation that never ended
  CHECK(read.wait.moments().sum == 4100);
  CHECK(read.service.moments().sum == 56'000);
  CHECK(read.response_max == 9'000'000);
  CHECK(figures.fleet.asked_depth == 0);
  CHECK(figures.fleet.lateness.count() == 2);
  CHECK(figures.fleet.lateness.moments().max == 6);
  CHECK(figures.straggle_count == 3);
  CHECK(figures.straggle_oldest == 9'000'000);
  REQUIRE(figures.stragglers.size() == 2);
  CHECK(figures.stragglers[0].final_age == 9'000'000);
  CHECK(figures.overloaded);
  CHECK_FALSE(figures.poisoned);
}

TEST_CASE("only the 256 oldest stragglers of the fleet are kept") {
  PhaseAggregator aggregator(OpenShape({{"a", {0}}, {"b", {1}}}, 0, 1));
  for (const char* id : {"a", "b"}) {
    PhaseTotals totals;
    const Nanos offset = *id == 'a' ? 0 : 1;
    totals.straggle_count = 1000;
    for (int i = 0; i < 256; ++i) {
      totals.stragglers.push_back(
          {.initiator = 0, .kind = kRead, .age_at_end = 0, .final_age = 2 * i + offset, .ended = true});
    }
    REQUIRE(aggregator.AddTotals(id, totals).ok());
  }
  const StepFigures figures = aggregator.Seal(-1);
  CHECK(figures.straggle_count == 2000);
  REQUIRE(figures.stragglers.size() == 256);
  CHECK(figures.stragglers.front().final_age == 511);
  CHECK(figures.stragglers.back().final_age == 256);
}

TEST_CASE("live figures are the newest interval of all live agents; silent ones are marked, not waited for") {
  PhaseAggregator aggregator(Shape({{"a", {0}}, {"b", {1}}}, 1, 20, 1.0));
  CHECK_FALSE(aggregator.Live().has_value());
  auto one = [](int64_t k, uint32_t initiator, size_t ops) {
    return Interval(k, {Initiator(initiator, {Ops(kRead, std::vector<uint64_t>(ops, 1000))})});
  };
  REQUIRE(aggregator.Add("a", one(0, 0, 10)).ok());
  CHECK_FALSE(aggregator.Live().has_value());  // b owes it
  REQUIRE(aggregator.Add("b", one(0, 1, 30)).ok());
  auto live = aggregator.Live();
  REQUIRE(live.has_value());
  CHECK(live->interval == 0);
  CHECK(live->iops == 40);
  CHECK(live->bytes_per_second == 40 * 4096);
  CHECK(live->p50 == 1000);
  CHECK_FALSE(live->in_window);
  CHECK_FALSE(live->provisional);
  REQUIRE(live->agents.size() == 2);
  CHECK(live->agents[1].iops == 30);

  // 2 s + 3 intervals of 1 s: b is silent when it is six behind.
  for (int64_t k = 1; k <= 5; ++k) REQUIRE(aggregator.Add("a", one(k, 0, 10)).ok());
  CHECK(aggregator.Live()->interval == 0);
  CHECK_FALSE(aggregator.Live()->agents[1].silent);
  REQUIRE(aggregator.Add("a", one(6, 0, 10)).ok());
  live = aggregator.Live();
  CHECK(live->interval == 6);
  CHECK(live->provisional);
  CHECK(live->in_window);
  CHECK(live->iops == 10);
  CHECK(live->agents[1].silent);
  CHECK(aggregator.TakeComplete().size() == 1);  // silent is not lost: nothing is decided

  for (int64_t k = 1; k <= 6; ++k) REQUIRE(aggregator.Add("b", one(k, 1, 30)).ok());
  live = aggregator.Live();
  CHECK(live->interval == 6);
  CHECK_FALSE(live->provisional);
  CHECK(live->iops == 40);
  CHECK_FALSE(live->agents[1].silent);
  CHECK(aggregator.TakeComplete().size() == 6);
}

}  // namespace
}  // namespace muster::test
