// One worker that drives several connections.
#include <catch2/catch.hpp>
#include <set>

#include "agent/backend/null_backend.h"
#include "agent/engine/lane_wait.h"
#include "tests/unit/engine/loop_rig.h"

namespace muster {
namespace {

constexpr Nanos kT0 = LoopRig::kStart;

TEST_CASE("a full connection keeps only its own operations waiting") {
  LoopRig rig(LoopRig::Closed(1, 4), 1, 0, 2, 0, 1);
  REQUIRE(rig.plan.lanes.size() == 2);
  rig.backend.limit = 1;
  rig.backend.latency = [](const IoOp&, size_t) { return 50 * kMillisecond; };
  rig.more[0]->latency = [](const IoOp&, size_t) { return 10 * kMillisecond; };
  rig.Begin();
  rig.Run();
  REQUIRE(rig.status.ok());
  const KindDelta slow = LoopRig::Kind(rig.deltas[0], 0);
  const KindDelta fast = LoopRig::Kind(rig.deltas[0], 1);
  // One at a time, 50 ms each: the others of the four wait. The second initiator is never held up.
  CHECK(slow.completed == 19);
  CHECK(slow.wait.moments.max == 150 * kMillisecond);
  CHECK(rig.deltas[0].initiators[0].time_full == kSecond);
  CHECK(fast.completed == 99 * 4);
  CHECK(fast.wait.moments.count == 0);
  CHECK(fast.response.moments.max == 10 * kMillisecond);
  CHECK(rig.deltas[0].initiators[1].time_full == 0);
  for (uint32_t i : {0u, 1u}) CHECK(rig.Totals(i).submitted == rig.Totals(i).completed);
}

TEST_CASE("every stream's operations go over its own connection") {
  Workload work = LoopRig::Closed(4, 2);
  work.layout = Layout::kPartition;
  work.pattern = Pattern::kSequential;  // a stream is known by its slice
  LoopRig rig(work, 1, 0, 1, 0, kPerStream);
  REQUIRE(rig.plan.lanes.size() == 4);
  rig.Begin();
  rig.RunUntil(kT0 + 5 * kMillisecond);
  std::set<uint64_t> slices;
  for (size_t lane = 0; lane < 4; ++lane) {
    const ScriptedBackend& backend = lane == 0 ? rig.backend : *rig.more[lane - 1];
    REQUIRE(backend.seen.size() > 2);
    const uint64_t slice = backend.seen[0].op.offset / (work.size / 4);
    for (const auto& seen : backend.seen) CHECK(seen.op.offset / (work.size / 4) == slice);
    CHECK(backend.outstanding() == 2);
    CHECK(slices.insert(slice).second);
  }
}

TEST_CASE("with more endings than a poll takes, no connection is starved and nothing is lost") {
  LoopRig rig(LoopRig::Closed(8, 64), 2, 0, 3, 0, kPerStream);
  REQUIRE(rig.plan.lanes.size() == 24);
  for (auto& lane : rig.more) lane->latency = [](const IoOp&, size_t) { return kMillisecond; };
  rig.backend.latency = [](const IoOp&, size_t) { return kMillisecond; };
  rig.Begin();
  rig.Run();
  REQUIRE(rig.status.ok());
  for (uint32_t i = 0; i < 3; ++i) {
    // 512 outstanding of 1 ms each; those at the edge itself belong to the next interval.
    CHECK(LoopRig::Kind(rig.deltas[1], i).completed == 512'000);
    CHECK(rig.Totals(i).submitted == rig.Totals(i).completed);
  }
  CHECK(rig.loop->result().straggle_count == 3 * 512);
}

TEST_CASE("open loop over connections: everything due is issued when it is due") {
  LoopRig rig(LoopRig::Open(Pacing::kFixed, 2000, 4), 2, 0, 2, 0, kPerStream);
  REQUIRE(rig.plan.lanes.size() == 8);
  rig.Begin();
  rig.Run();
  REQUIRE(rig.status.ok());
  uint64_t completed = 0;
  for (uint32_t i = 0; i < 2; ++i) {
    for (const IntervalDelta& delta : rig.All()) {
      const KindDelta read = LoopRig::Kind(delta, i, OpKind::kRead, true);
      completed += read.completed;
      if (read.completed > 0) CHECK(read.wait.moments.max == 0);
    }
  }
  CHECK(completed == 4000);
}

TEST_CASE("open loop: one stalled connection of an initiator makes its own operations wait, not the other's") {
  LoopRig rig(LoopRig::Open(Pacing::kFixed, 1000, 2), 2, 0, 1, 0, kPerStream);
  REQUIRE(rig.plan.lanes.size() == 2);
  rig.backend.limit = 1;
  rig.backend.latency = [](const IoOp&, size_t n) { return n == 0 ? 700 * kMillisecond : 100 * kMicrosecond; };
  rig.Begin();
  rig.RunUntil(kT0 + 600 * kMillisecond);
  CHECK(rig.backend.seen.size() == 1);
  CHECK(rig.more[0]->seen.size() >= 299);
  for (size_t i = 1; i < rig.more[0]->seen.size(); ++i) {
    CHECK(rig.more[0]->seen[i].submitted - rig.more[0]->seen[i - 1].submitted == 2 * kMillisecond);
  }
  rig.Run();
  CHECK(rig.Totals().submitted == rig.Totals().completed);
}

TEST_CASE("abort and a connection that never answers: the others are drained") {
  LoopRig rig(LoopRig::Closed(1, 2), 3, 0, 2, 0, 1);
  rig.backend.latency = [](const IoOp&, size_t) { return kNever; };
  rig.backend.abort_ends = false;
  rig.Begin();
  rig.RunUntil(kT0 + kSecond + kMillisecond);
  rig.control.abort = true;
  rig.Run();
  CHECK(rig.loop->result().poisoned);
  CHECK(rig.Totals(0).abandoned == 2);
  CHECK(rig.Totals(1).abandoned == 0);
  CHECK(rig.Totals(1).submitted == rig.Totals(1).completed + rig.Totals(1).aborted);
}

TEST_CASE("connections go to workers whole, initiators after each other") {
  PhaseSpec spec;
  spec.target = "t";
  spec.initiator_count = spec.initiator_count_max = 24;
  for (uint32_t i = 0; i < 24; ++i) spec.initiators.push_back(i);
  spec.objects = {{.slot = 0, .name = "", .size = 1 << 30}};
  Workload work;
  work.load = {.streams = 16, .depth = 16};
  work.size = 1 << 30;
  spec.work = MeasureSpec{.workload = work};
  EngineTarget target{.target = {.name = "t", .kind = NullTarget{}}, .objects = {{.fd = -1, .size = 1 << 30}}};
  for (const uint32_t connections : {1u, 3u, kPerStream}) {
    target.connections = connections;
    const uint32_t each = std::min(connections, 16u);
    for (const uint32_t cpus : {1u, 2u, 5u, 64u}) {
      const auto workers = PlanWorkers(spec, target, cpus);
      REQUIRE(workers.ok());
      CHECK(workers->size() == std::min(cpus, 24 * each));
      std::set<std::pair<uint32_t, uint32_t>> seen;
      for (const WorkerPlan& worker : *workers) {
        uint32_t slots = 0;
        for (const LanePlan& lane : worker.lanes) {
          CHECK(seen.emplace(lane.initiator, lane.connection).second);
          CHECK(lane.connection < each);
          slots += lane.slots;
        }
        CHECK(slots == worker.slots);
        for (const GroupPlan& group : worker.groups) {
          for (const StreamPlan& stream : group.streams) {
            const LanePlan& lane = worker.lanes.at(stream.lane);
            CHECK(lane.initiator == group.initiator);
            CHECK(lane.connection == stream.stream * each / 16);
          }
        }
      }
      CHECK(seen.size() == 24 * each);
    }
  }
}

// Real clocks: bounds only.
TEST_CASE("waiting for several backends ends at the deadline, and at once when one has something") {
  auto a = MakeNullBackend({}, 1);
  auto b = MakeNullBackend({}, 2);
  const BackendObject object{.fd = -1, .size = 1 << 20};
  for (Backend* backend : {a.get(), b.get()}) REQUIRE(backend->Open({&object, 1}, {}, {.depth = 4}, kNever).ok());
  LaneWait wait;
  Backend* const both[] = {a.get(), b.get()};
  REQUIRE(wait.Add(both).ok());
  const Clock& clock = SteadyClock::Get();
  const Nanos begin = clock.Now();
  wait.WaitUntil(begin + 20 * kMillisecond);
  CHECK(clock.Now() - begin >= 20 * kMillisecond);
  CHECK(clock.Now() - begin < kSecond);
  CHECK(wait.precise());
  wait.WaitUntil(begin);  // in the past
  CHECK(clock.Now() - begin < 2 * kSecond);
}

}  // namespace
}  // namespace muster
