#include <catch2/catch.hpp>

#include "tests/unit/aggregate/deltas.h"

namespace muster {
namespace {

using namespace test;

PhaseShape Shape(Nanos interval = kSecond) {
  PhaseShape shape;
  shape.agents = {{"a", {0, 2}}, {"b", {1}}};
  shape.interval = interval;
  shape.window_intervals = 20;
  return shape;
}

void Deliver(PhaseAggregator& phase, int64_t k) {
  REQUIRE(phase
              .Add("a", Interval(k, {Initiator(2, {Ops(OpKind::kRead, {100, 200, 300})}),
                                     Initiator(0, {Ops(OpKind::kRead, {10}), Ops(OpKind::kWrite, {20, 30})})}))
              .ok());
  REQUIRE(phase.Add("b", Interval(k, {Initiator(1, {Ops(OpKind::kRead, {})})})).ok());
}

TEST_CASE("detail has each initiator's figures of the interval, and each agent's percentiles, if it is wanted") {
  PhaseAggregator phase(Shape());
  Deliver(phase, 0);
  CHECK(phase.Live()->detail == nullptr);
  phase.WantDetail(true);
  Deliver(phase, 1);
  const auto detail = phase.Live()->detail;
  REQUIRE(detail != nullptr);
  CHECK(detail->interval == 1);
  REQUIRE(detail->initiators.size() == 3);
  CHECK(detail->initiators[0].agent == "a");
  CHECK(detail->initiators[0].iops == 3);
  CHECK(detail->initiators[0].bytes_per_second == 3 * 4096);
  CHECK(detail->initiators[0].latency->p50 == 20);
  CHECK(detail->initiators[0].latency->p99 == 30);
  CHECK(detail->initiators[1].agent == "b");
  CHECK_FALSE(detail->initiators[1].latency);
  CHECK(detail->initiators[2].latency->p50 == 200);
  // All six operations of the agent, not a mean of percentiles.
  CHECK(detail->agents.at("a")->p50 == 30);
  CHECK(detail->agents.at("a")->p99 == 300);
  CHECK_FALSE(detail->agents.at("b"));
  phase.WantDetail(false);
  CHECK(phase.Live()->detail == nullptr);
}

TEST_CASE("detail of held intervals has rates and no percentiles") {
  PhaseAggregator phase(Shape());
  phase.WantDetail(true);
  REQUIRE(phase.Add("a", Stripped(Interval(0, {Initiator(0, {Ops(OpKind::kRead, {10})}), Initiator(2, {})}))).ok());
  REQUIRE(phase.Add("b", Interval(0, {Initiator(1, {Ops(OpKind::kRead, {7})})})).ok());
  const auto detail = phase.Live()->detail;
  REQUIRE(detail != nullptr);
  CHECK(detail->initiators[0].iops == 1);
  CHECK_FALSE(detail->initiators[0].latency);
  CHECK_FALSE(detail->agents.at("a"));
  CHECK(detail->agents.at("b")->p50 == 7);
}

TEST_CASE("short intervals have detail twice a second at most") {
  PhaseAggregator phase(Shape(kSecond / 10));
  phase.WantDetail(true);
  std::vector<int64_t> of;
  for (int64_t k = 0; k < 12; ++k) {
    Deliver(phase, k);
    of.push_back(phase.Live()->detail->interval);
  }
  CHECK(of == std::vector<int64_t>{0, 0, 0, 0, 0, 5, 5, 5, 5, 5, 10, 10});
}

TEST_CASE("detail is bounded, and says what it leaves out") {
  PhaseShape shape = Shape();
  shape.agents = {{"a", {}}, {"b", {0}}};
  IntervalDelta delta = Interval(0, {});
  for (uint32_t i = 1; i <= LiveDetail::kInitiators + 9; ++i) {
    shape.agents["a"].push_back(i);
    delta.initiators.push_back(Initiator(i, {}));
  }
  PhaseAggregator phase(shape);
  phase.WantDetail(true);
  REQUIRE(phase.Add("b", Interval(0, {Initiator(0, {Ops(OpKind::kRead, {7})})})).ok());
  REQUIRE(phase.Add("a", delta).ok());
  const auto detail = phase.Live()->detail;
  CHECK(detail->initiators.size() == LiveDetail::kInitiators);
  CHECK(detail->left_out == 10);
  CHECK(detail->agents.at("b")->p99 == 7);
}

}  // namespace
}  // namespace muster
