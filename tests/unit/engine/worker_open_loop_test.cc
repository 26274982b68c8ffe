#include <catch2/catch.hpp>

#include "tests/unit/engine/loop_rig.h"

namespace muster {
namespace {

constexpr Nanos kT0 = LoopRig::kStart;

Histogram Sum(const LoopRig& rig, bool in_window, EncodedHistogram KindDelta::*which) {
  Histogram sum;
  for (const IntervalDelta& delta : rig.All()) {
    REQUIRE(sum.Merge(LoopRig::Kind(delta, 0, OpKind::kRead, in_window).*which).ok());
  }
  return sum;
}

TEST_CASE("fixed rate: every operation is issued when it is due") {
  LoopRig rig(LoopRig::Open(Pacing::kFixed, 1000), 3);
  rig.Begin();
  rig.Run();
  REQUIRE(rig.deltas.size() == 3);
  for (const IntervalDelta& delta : rig.deltas) {
    const KindDelta read = LoopRig::Kind(delta, 0, OpKind::kRead, true);
    CHECK(read.completed == 1000);
    CHECK(read.response.moments.max == 100 * kMicrosecond);
    CHECK(read.wait.moments.count == read.completed);
    CHECK(read.wait.moments.max == 0);
    CHECK(delta.initiators[0].lateness.moments.count == read.completed);
    CHECK(delta.initiators[0].lateness.moments.max == 0);
  }
}

TEST_CASE("a stall of the target shows as wait: no coordinated omission") {
  // 1,000 operations a second, one slot; the target holds everything from 1 s to 3 s.
  Workload work = LoopRig::Open(Pacing::kFixed, 1000);
  work.max_outstanding = 1;
  LoopRig rig(work, 10);
  rig.backend.latency = [&](const IoOp&, size_t) {
    const Nanos at = rig.clock.Now() - kT0;
    return at >= kSecond && at < 3 * kSecond ? 3 * kSecond - at : 1 * kMicrosecond;
  };
  rig.Begin();
  rig.Run();
  const Histogram response = Sum(rig, true, &KindDelta::response);
  CHECK(response.count() == 10'000);
  // 2,000 of 10,000 were due in the stall, one every ms: their responses are 2 s, 1.999 s, ... So a fifth of all
  // waited, p90 is 1 s, p99 1.9 s. A tool that forgets what it could not issue would show one slow operation.
  CHECK(static_cast<double>(response.At(0.90).value) == Approx(1.0 * kSecond).epsilon(0.002));
  CHECK(static_cast<double>(response.At(0.99).value) == Approx(1.9 * kSecond).epsilon(0.002));
  CHECK(static_cast<double>(response.moments().max) == Approx(2.0 * kSecond).epsilon(0.001));
  CHECK(response.At(0.79).value < 2 * kMillisecond);
  const Histogram service = Sum(rig, true, &KindDelta::service);
  CHECK(service.At(0.999).value <= 2 * kMicrosecond);
  CHECK(rig.deltas[1].initiators[0].waiting + rig.deltas[1].initiators[0].outstanding == 1000);
  CHECK(rig.deltas[2].initiators[0].waiting + rig.deltas[2].initiators[0].outstanding == 2000);
  CHECK(LoopRig::Kind(rig.deltas[2], 0, OpKind::kRead, true).completed == 0);
  // Those that found a free slot were issued in time, whatever the others went through.
  CHECK(rig.deltas[1].initiators[0].lateness.moments.max == 0);
}

TEST_CASE("the depth of due operations is exact without storing them") {
  for (const Pacing pacing : {Pacing::kFixed, Pacing::kPoisson}) {
    Rng rng(5);
    Workload work = LoopRig::Open(pacing, 3000, 4);
    work.max_outstanding = 3;
    LoopRig rig(work, 3, 1);
    rig.backend.submit_cost = 11'000;
    rig.backend.latency = [&](const IoOp&, size_t) { return static_cast<Nanos>(rng.Below(2 * kMillisecond)); };
    rig.Begin();
    rig.Run();
    // Brute force over the same arrivals: due + (sum of responses) covers each operation's whole life.
    Uint128 offered = 0;
    Uint128 wire = 0;
    for (const IntervalDelta& delta : rig.All()) {
      offered += delta.initiators[0].offered_integral;
      wire += delta.initiators[0].wire_integral;
    }
    const uint64_t responses =
        Sum(rig, true, &KindDelta::response).moments().sum + Sum(rig, false, &KindDelta::response).moments().sum;
    const uint64_t services =
        Sum(rig, true, &KindDelta::service).moments().sum + Sum(rig, false, &KindDelta::service).moments().sum;
    CHECK(Uint128ToString(offered) == std::to_string(responses));
    CHECK(Uint128ToString(wire) == std::to_string(services));

    // And interval by interval against the schedule itself.
    std::vector<Nanos> due;
    for (uint32_t s = 0; s < 4; ++s) {
      Pacer pacer(pacing, 750, StreamSeed(work.seed, SeedPurpose::kPacer, 0, s), kT0);
      for (; pacer.Next() < kT0 + 4 * kSecond; pacer.Advance()) due.push_back(pacer.Next());
    }
    CHECK(rig.Totals().submitted == due.size());
    std::sort(due.begin(), due.end());
    Uint128 waiting[5] = {};
    for (size_t i = 0; i < due.size(); ++i) {  // issued in order of due
      for (int k = 0; k < 5; ++k) {
        const Nanos begin = std::max(due[i], kT0 + k * kSecond);
        const Nanos end = std::min(rig.backend.seen[i].submitted, k == 4 ? kNever : kT0 + (k + 1) * kSecond);
        if (begin < end) waiting[k] += static_cast<Uint128>(end - begin);
      }
    }
    for (int k = 0; k < 5; ++k) {
      const InitiatorDelta initiator = rig.All()[k].initiators[0];
      CHECK(Uint128ToString(initiator.offered_integral - initiator.wire_integral) == Uint128ToString(waiting[k]));
    }
  }
}

TEST_CASE("latency belongs to the operations due in the window, followed to their end") {
  // Latency 300 ms: of every interval's operations some end in the next.
  LoopRig rig(LoopRig::Open(Pacing::kFixed, 100), 2, 1);
  rig.backend.latency = [](const IoOp&, size_t) { return 300 * kMillisecond; };
  rig.Begin();
  rig.Run();
  REQUIRE(rig.deltas.size() == 3);
  CHECK(LoopRig::Kind(rig.deltas[0], 0, OpKind::kRead, false).completed == 70);
  CHECK(LoopRig::Kind(rig.deltas[0], 0, OpKind::kRead, true).completed == 0);
  CHECK(LoopRig::Kind(rig.deltas[1], 0, OpKind::kRead, false).completed == 30);
  CHECK(LoopRig::Kind(rig.deltas[1], 0, OpKind::kRead, true).completed == 70);
  CHECK(LoopRig::Kind(rig.deltas[2], 0, OpKind::kRead, true).completed == 100);
  CHECK(LoopRig::Kind(rig.drain, 0, OpKind::kRead, true).completed == 30);
  CHECK(LoopRig::Kind(rig.drain, 0, OpKind::kRead, false).completed == 0);
}

TEST_CASE("at most max_outstanding are with the backend, and an operation that finds them all out is not late") {
  Workload work = LoopRig::Open(Pacing::kFixed, 1000, 2);
  work.max_outstanding = 5;
  LoopRig rig(work, 2);
  uint32_t most = 0;
  rig.backend.latency = [&](const IoOp&, size_t) {
    most = std::max(most, rig.backend.outstanding() + 1);
    return 10 * kMillisecond;  // 5 slots serve 500 a second: half of what is asked
  };
  rig.Begin();
  rig.Run();
  CHECK(most == 5);
  CHECK(rig.deltas[1].initiators[0].lateness.moments.count == 0);
  CHECK(rig.deltas[0].initiators[0].lateness.moments.count == 5);
  CHECK(rig.deltas[1].initiators[0].time_full == kSecond);
  CHECK(rig.Totals().completed == 2000);  // what was due is still issued after the window, and ends in the drain
  CHECK(LoopRig::Kind(rig.deltas[1], 0, OpKind::kRead, true).completed == 500);
  CHECK(rig.loop->result().straggle_count > 900);
}

TEST_CASE("lateness is the generator's own part: measured when a slot was free") {
  LoopRig rig(LoopRig::Open(Pacing::kFixed, 100), 1);
  rig.Begin();
  // A worker that always wakes 70 us late.
  while (!rig.loop->finished()) {
    const WorkerLoop::Next next = rig.loop->Step();
    rig.Pull();
    if (next.wait_until > rig.clock.Now()) {
      rig.clock.Set(next.wait_until + 70 * kMicrosecond);
      rig.loop->Woke();
    }
  }
  REQUIRE(rig.deltas.size() == 1);
  const EncodedHistogram& lateness = rig.deltas[0].initiators[0].lateness;
  CHECK(lateness.moments.count == 100);
  CHECK(lateness.moments.min == 70 * kMicrosecond);
  CHECK(lateness.moments.max == 70 * kMicrosecond);
}

TEST_CASE("overload: the oldest due operation has waited too long, the phase ends at the next edge") {
  Workload work = LoopRig::Open(Pacing::kFixed, 1000);
  work.max_outstanding = 2;
  work.overload_after = 1500 * kMillisecond;
  LoopRig rig(work, 60);
  rig.backend.latency = [](const IoOp&, size_t) { return 100 * kMillisecond; };  // 20 a second
  rig.Begin();
  rig.Run();
  CHECK(rig.control.overloaded);
  CHECK(rig.deltas.size() == 2);  // noticed at 1.5 s
  CHECK(rig.loop->result().reason == EndReason::kLastInterval);
  const KindTotals totals = rig.Totals();
  CHECK(totals.submitted == totals.completed);
  CHECK(totals.submitted < 50);
  // Nothing is shed silently: all that never went out is listed and has its age.
  const KindDelta drained = LoopRig::Kind(rig.drain, 0, OpKind::kRead, true);
  CHECK(drained.unfinished.moments.count == 2000 - totals.submitted);
  CHECK(rig.loop->result().straggle_count == 2000 - (totals.submitted - 2));
}

TEST_CASE("the seed fixes the load, whatever the target does") {
  const auto offsets = [](Nanos latency) {
    LoopRig rig(LoopRig::Open(Pacing::kPoisson, 2000, 3), 1);
    rig.backend.latency = [=](const IoOp&, size_t n) { return latency * static_cast<Nanos>(1 + n % 3); };
    rig.Begin();
    rig.Run();
    std::vector<uint64_t> result;
    for (const auto& seen : rig.backend.seen) result.push_back(seen.op.offset);
    return result;
  };
  CHECK(offsets(10 * kMicrosecond) == offsets(3 * kMillisecond));
}

}  // namespace
}  // namespace muster
