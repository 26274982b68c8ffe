#include <catch2/catch.hpp>

#include "tests/unit/engine/loop_rig.h"

namespace muster {
namespace {

constexpr Nanos kT0 = LoopRig::kStart;

TEST_CASE("lease end stops submission; the rest is drained and reported") {
  LoopRig rig(LoopRig::Closed(1, 4), 10);
  rig.lease = kT0 + 2500 * kMillisecond;
  rig.Begin();
  rig.Run();
  CHECK(rig.loop->result().reason == EndReason::kLease);
  CHECK(rig.backend.last_submit < kT0 + 2500 * kMillisecond);
  CHECK(rig.deltas.size() == 2);
  CHECK(rig.drain.drain);
  CHECK(rig.drain.interval == 2);
  const KindTotals totals = rig.Totals();
  CHECK(totals.submitted == totals.completed);
  uint64_t completed = 0;
  for (const IntervalDelta& delta : rig.All()) completed += LoopRig::Kind(delta).completed;
  CHECK(completed == totals.completed);
}

TEST_CASE("a worker continued after its lease ended issues nothing") {
  for (const bool open : {false, true}) {
    LoopRig rig(open ? LoopRig::Open(Pacing::kFixed, 10'000) : LoopRig::Closed(1, 4), 100);
    rig.lease = kT0 + 10 * kSecond;
    rig.Begin();
    rig.RunUntil(kT0 + 3 * kSecond);
    const size_t before = rig.backend.submits;
    rig.clock.Advance(20 * kSecond);  // stopped, then continued
    rig.Run();
    CHECK(rig.backend.submits == before);
    CHECK(rig.loop->result().reason == EndReason::kLease);
  }
}

TEST_CASE("a lease that is extended does not stop anything") {
  LoopRig rig(LoopRig::Closed(1, 1), 5);
  rig.lease = kT0 + 500 * kMillisecond;
  rig.Begin();
  while (!rig.loop->finished()) {
    rig.Step();
    rig.lease = rig.clock.Now() + 500 * kMillisecond;
  }
  CHECK(rig.deltas.size() == 5);
  CHECK(rig.loop->result().reason == EndReason::kLastInterval);
}

TEST_CASE("abort: nothing further goes out, what is out is ended, the running interval is the drain") {
  LoopRig rig(LoopRig::Closed(1, 4), 10);
  rig.backend.latency = [](const IoOp&, size_t) { return 300 * kMillisecond; };
  rig.Begin();
  rig.RunUntil(kT0 + 1400 * kMillisecond);
  rig.control.abort = true;
  const size_t before = rig.backend.submits;
  rig.Run();
  CHECK(rig.backend.submits == before);
  CHECK(rig.deltas.size() == 1);
  CHECK(rig.drain.interval == 1);
  CHECK(rig.drain.drain);
  const KindTotals totals = rig.Totals();
  CHECK(totals.aborted == 4);
  CHECK(totals.submitted == totals.completed + totals.aborted);
  REQUIRE(LoopRig::Kind(rig.drain).errors.size() == 1);
  CHECK(LoopRig::Kind(rig.drain).errors[0].outcome == Outcome::kAborted);
  CHECK(LoopRig::Kind(rig.drain).errors[0].count == 4);
  CHECK(rig.clock.Now() <= kT0 + 1400 * kMillisecond + 300 * kMillisecond);
}

TEST_CASE("operations that never come back are abandoned at the drain deadline, with their age") {
  LoopRig rig(LoopRig::Closed(1, 3), 2);
  rig.backend.latency = [](const IoOp&, size_t n) { return n == 1 ? kNever : 10 * kMillisecond; };
  rig.Begin();
  rig.Run();
  const KindTotals totals = rig.Totals();
  CHECK(totals.abandoned == 1);
  CHECK(totals.submitted == totals.completed + 1);
  const LoopResult& result = rig.loop->result();
  CHECK(result.poisoned);
  CHECK(result.straggle_count == 3);
  REQUIRE(result.stragglers.size() == 3);
  CHECK(result.stragglers[0].age_at_end == 2 * kSecond);  // the oldest first
  CHECK_FALSE(result.stragglers[0].ended);
  // Op timeout (10 s here) and 5 s after the end of the window.
  CHECK(result.stragglers[0].final_age == 17 * kSecond);
  CHECK(LoopRig::Kind(rig.drain).unfinished.moments.count == 1);
  CHECK(LoopRig::Kind(rig.drain).unfinished.moments.max == 17 * kSecond);
  CHECK(rig.clock.Now() == kT0 + 17 * kSecond);
}

TEST_CASE("stop after an interval: all of it is measured, nothing after it") {
  LoopRig rig(LoopRig::Closed(1, 2), 100);
  rig.Begin();
  rig.RunUntil(kT0 + 2300 * kMillisecond);
  rig.control.stop_after = 3;
  rig.Run();
  CHECK(rig.deltas.size() == 4);
  CHECK(rig.backend.last_submit < kT0 + 4 * kSecond);
  LoopRig past(LoopRig::Closed(1, 2), 100);
  past.Begin();
  past.RunUntil(kT0 + 2300 * kMillisecond);
  past.control.stop_after = 0;  // already past: the next edge it is
  past.Run();
  CHECK(past.deltas.size() == 3);
}

TEST_CASE("an edge between completion and submission ends the phase before the submission") {
  LoopRig rig(LoopRig::Closed(1, 1), 1);
  rig.backend.reap_cost = 0;
  // Done 1 us before the edge; the poll that finds it takes until after the edge.
  rig.backend.latency = [](const IoOp&, size_t) { return kSecond - kMicrosecond; };
  rig.Begin();
  rig.Run();
  CHECK(rig.Totals().completed == rig.Totals().submitted);
  for (const auto& seen : rig.backend.seen) CHECK(seen.submitted < kT0 + kSecond);
}

TEST_CASE("edges follow better estimates, never back behind what is counted") {
  LoopRig rig(LoopRig::Closed(1, 1), 4);
  rig.fleet.Set({.offset = 0, .error = 50 * kMicrosecond, .taken = kT0});
  rig.Begin();
  rig.RunUntil(kT0 + 1500 * kMillisecond);
  // Fleet time turns out to be 2 ms ahead: edges come 2 ms earlier by the local clock.
  rig.fleet.Set({.offset = 2 * kMillisecond, .error = 10 * kMicrosecond, .taken = rig.clock.Now()});
  rig.RunUntil(kT0 + 2990 * kMillisecond);
  // And half a second ahead when interval 2 is nearly over: its edge would be long past.
  const Nanos at = rig.clock.Now();
  rig.fleet.Set({.offset = 500 * kMillisecond, .error = 10 * kMicrosecond, .taken = at});
  rig.Run();
  REQUIRE(rig.deltas.size() == 4);
  CHECK(rig.deltas[0].length == kSecond);
  CHECK(rig.deltas[1].length == kSecond - 2 * kMillisecond);
  CHECK(rig.deltas[2].length > at - (kT0 + 1998 * kMillisecond) - kMillisecond);  // the last counted change
  CHECK(rig.deltas[2].length < at - (kT0 + 1998 * kMillisecond) + kMillisecond);
  // The bound widens by 100 ppm of the estimate's age.
  CHECK(rig.deltas[0].edge_error == 50 * kMicrosecond + 100 * kMicrosecond);
  CHECK(rig.deltas[1].edge_error <= 10 * kMicrosecond + 50 * kMicrosecond);
  Uint128 integral = 0;
  for (const IntervalDelta& delta : rig.deltas) {
    integral += delta.initiators[0].wire_integral;
    CHECK(delta.initiators[0].wire_integral == static_cast<Uint128>(delta.length));
  }
}

TEST_CASE("a process that was stopped has gaps, a worker held in a call has empty intervals") {
  for (const bool stopped : {true, false}) {
    LoopRig rig(LoopRig::Closed(1, 2), 8);
    rig.Begin();
    rig.RunUntil(kT0 + 1500 * kMillisecond);
    const Nanos from = rig.clock.Now();
    rig.clock.Set(kT0 + 5200 * kMillisecond);
    if (stopped) rig.collector->NoteStop(from, rig.clock.Now());
    rig.Run();
    REQUIRE(rig.deltas.size() == 8);
    for (int k = 0; k < 8; ++k) {
      CHECK(rig.deltas[k].interval == k);
      CHECK(rig.deltas[k].gap == (stopped && k >= 2 && k <= 4));
      CHECK(rig.deltas[k].initiators.size() == (rig.deltas[k].gap ? 0 : 1));
      if (!stopped && k >= 2 && k <= 4) {
        CHECK(LoopRig::Kind(rig.deltas[k]).completed == 0);
        CHECK(rig.deltas[k].initiators[0].outstanding == 2);
      }
    }
    uint64_t completed = 0;
    for (const IntervalDelta& delta : rig.All()) {
      if (!delta.gap) completed += LoopRig::Kind(delta).completed;
    }
    CHECK(completed == rig.Totals().completed);
    CHECK(rig.deltas[5].poll_gap_max >= 3 * kSecond);
  }
}

TEST_CASE("without a clean recorder set a worker waits, loses nothing and counts it as a poll gap") {
  LoopRig rig(LoopRig::Closed(1, 2), 8);
  rig.pull = false;
  rig.Begin();
  rig.RunUntil(kT0 + 7 * kSecond);
  rig.pull = true;
  rig.Run();
  REQUIRE(rig.deltas.size() == 8);
  uint64_t completed = 0;
  for (const IntervalDelta& delta : rig.All()) completed += LoopRig::Kind(delta).completed;
  CHECK(completed == rig.Totals().completed);
  Nanos gap = 0;
  for (const IntervalDelta& delta : rig.deltas) gap = std::max(gap, delta.poll_gap_max);
  CHECK(gap >= 2 * kSecond);  // four sets: starved from the fourth edge on
}

TEST_CASE("a reporter that never comes ends the phase as faulty, not in a hang") {
  LoopRig rig(LoopRig::Closed(1, 2), 8);
  rig.pull = false;
  rig.Begin();
  rig.RunUntil(kT0 + 7 * kSecond);
  rig.loop->GiveUpRecorders();
  rig.pull = true;
  rig.Run();
  CHECK(rig.loop->finished());
  CHECK(rig.loop->result().reason == EndReason::kRecorders);
  CHECK(rig.Totals().submitted == rig.Totals().completed);
}

TEST_CASE("a backend that completes what was never submitted is a fault") {
  LoopRig rig(LoopRig::Closed(1, 2), 8);
  size_t calls = 0;
  rig.backend.outcome = [&](const IoOp&, size_t n) {
    if (++calls == 100) rig.backend.seen[n].op.tag = 4711;
    return IoOutcome::kOk;
  };
  rig.Begin();
  rig.Run();
  CHECK(rig.loop->result().reason == EndReason::kBackend);
}

FillSpec SmallFill() {
  FillSpec fill;
  fill.block = 1 << 16;
  fill.depth = 4;
  fill.passes = 2;
  fill.extents = {{.slot = 0, .offset = 0, .length = 40 * (1 << 16) + 4096}};
  return fill;
}

TEST_CASE("a fill writes everything, then ends by itself") {
  LoopRig rig(SmallFill());
  rig.backend.latency = [](const IoOp&, size_t) { return 50 * kMillisecond; };
  rig.Begin();
  rig.Run();
  CHECK(rig.loop->result().reason == EndReason::kFillDone);
  CHECK(rig.Totals(0, OpKind::kWrite).completed == 2 * 41);
  CHECK(rig.Totals(0, OpKind::kWrite).bytes == 2 * (40u * (1 << 16) + 4096));
  CHECK(rig.Totals(0, OpKind::kFlush).completed == 1);
  CHECK(rig.drain.drain);
  CHECK(rig.drain.interval == static_cast<int64_t>(rig.deltas.size()));
  CHECK(rig.loop->result().straggle_count == 0);
}

TEST_CASE("a fill that cannot write ends with the place, and nothing is retried") {
  LoopRig rig(SmallFill());
  rig.backend.outcome = [](const IoOp& op, size_t) {
    return op.offset == 5 * (1 << 16) ? IoOutcome::kNoSpace : IoOutcome::kOk;
  };
  rig.Begin();
  rig.Run();
  const LoopResult& result = rig.loop->result();
  CHECK(result.reason == EndReason::kFillError);
  CHECK(result.failed_op.offset == 5 * (1 << 16));
  CHECK(result.failed_outcome == IoOutcome::kNoSpace);
  size_t tries = 0;
  for (const auto& seen : rig.backend.seen) tries += seen.op.offset == 5 * (1 << 16) ? 1 : 0;
  CHECK(tries == 1);
  CHECK(rig.backend.seen.size() < 20);
  CHECK(rig.Totals(0, OpKind::kWrite).failed == 1);
}

}  // namespace
}  // namespace muster
