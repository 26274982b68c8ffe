#include "agent/engine/worker_loop.h"

#include <catch2/catch.hpp>
#include <map>

#include "tests/unit/engine/loop_rig.h"

namespace muster {
namespace {

constexpr Nanos kT0 = LoopRig::kStart;

TEST_CASE("closed loop: rate, latency and depth are exact on a fake clock") {
  LoopRig rig(LoopRig::Closed(2, 4));
  rig.Begin();
  rig.Run();
  REQUIRE(rig.status.ok());
  REQUIRE(rig.deltas.size() == 3);
  for (size_t k = 0; k < 3; ++k) {
    const IntervalDelta& delta = rig.deltas[k];
    CHECK(delta.interval == static_cast<int64_t>(k));
    CHECK(delta.length == kSecond);
    CHECK_FALSE(delta.drain);
    CHECK_FALSE(delta.gap);
    const KindDelta read = LoopRig::Kind(delta);
    // 8 outstanding, 100 us each. Those that end at the edge itself belong to the interval that begins there.
    CHECK(read.completed == (k == 0 ? 79'992 : 80'000));
    CHECK(read.bytes == read.completed * 4096);
    CHECK(read.response.moments.min == 100'000);
    CHECK(read.response.moments.max == 100'000);
    CHECK(read.wait.moments.count == 0);  // every wait was zero
    CHECK(read.service.moments.count == 0);
    CHECK(delta.initiators[0].offered_integral == Uint128{8} * kSecond);
    CHECK(delta.initiators[0].wire_integral == Uint128{8} * kSecond);
    CHECK(delta.initiators[0].outstanding == 8);
    CHECK(delta.initiators[0].waiting == 0);
    CHECK(delta.initiators[0].oldest_age == 100 * kMicrosecond);
    CHECK(delta.initiators[0].time_full == 0);
  }
  CHECK(rig.drain.drain);
  CHECK(rig.drain.interval == 3);
  CHECK(LoopRig::Kind(rig.drain).completed == 8);  // done at the last edge: in no rate
  const KindTotals totals = rig.Totals();
  CHECK(totals.submitted == 240'000);
  CHECK(totals.completed == 240'000);
  CHECK(rig.loop->result().straggle_count == 8);
  for (const StraggleOp& op : rig.loop->result().stragglers) {
    CHECK(op.ended);
    CHECK(op.final_age == 100 * kMicrosecond);
  }
  CHECK(rig.loop->first_submit() == kT0);
}

TEST_CASE("an operation goes to the interval of its done stamp, at the edge to the later one") {
  for (const Nanos latency : {kSecond - 1, kSecond, kSecond + 1}) {
    LoopRig rig(LoopRig::Closed(1, 1));
    rig.backend.latency = [&](const IoOp&, size_t n) { return n == 0 ? latency : 100 * kSecond; };
    rig.Begin();
    rig.RunUntil(kT0 + 3 * kSecond + 1);
    REQUIRE(rig.deltas.size() == 3);
    CHECK(LoopRig::Kind(rig.deltas[0]).completed == (latency < kSecond ? 1 : 0));
    CHECK(LoopRig::Kind(rig.deltas[1]).completed == (latency < kSecond ? 0 : 1));
  }
}

TEST_CASE("a stalled target gives empty intervals, never missing ones") {
  LoopRig rig(LoopRig::Closed(1, 3), 5);
  rig.backend.latency = [](const IoOp&, size_t) { return 4500 * kMillisecond; };
  rig.Begin();
  rig.Run();
  REQUIRE(rig.deltas.size() == 5);
  for (int k = 0; k < 4; ++k) {
    CHECK(LoopRig::Kind(rig.deltas[k]).completed == 0);
    CHECK_FALSE(rig.deltas[k].gap);
    CHECK(rig.deltas[k].initiators[0].outstanding == 3);
    CHECK(rig.deltas[k].initiators[0].oldest_age == (k + 1) * kSecond);
  }
  CHECK(LoopRig::Kind(rig.deltas[4]).completed == 3);
  CHECK(LoopRig::Kind(rig.drain).completed == 3);
}

TEST_CASE("wait is exactly the time the backend was full") {
  LoopRig rig(LoopRig::Closed(1, 3), 1);
  rig.backend.limit = 2;
  rig.backend.latency = [](const IoOp&, size_t) { return 10 * kMillisecond; };
  rig.Begin();
  rig.Run();
  const KindDelta read = LoopRig::Kind(rig.deltas[0]);
  // Two at a time, 10 ms each; the third always waits for both of them.
  CHECK(read.completed == 198);
  CHECK(read.wait.moments.count == read.completed);
  CHECK(read.service.moments.count == read.completed);
  CHECK(read.service.moments.min == 10 * kMillisecond);
  CHECK(read.service.moments.max == 10 * kMillisecond);
  CHECK(read.wait.moments.sum + read.service.moments.sum == read.response.moments.sum);
  CHECK(read.wait.moments.max == 10 * kMillisecond);
  CHECK(read.response.moments.max == 20 * kMillisecond);
  CHECK(rig.deltas[0].initiators[0].time_full == kSecond);
  CHECK(rig.deltas[0].initiators[0].waiting == 1);
  CHECK(rig.deltas[0].initiators[0].offered_integral == Uint128{3} * kSecond);
  CHECK(rig.deltas[0].initiators[0].wire_integral == Uint128{2} * kSecond);
  // What had been offered and refused at the end is followed to its end; nothing new is offered.
  CHECK(rig.Totals().submitted == 201);
  CHECK(rig.Totals().completed == 201);
  CHECK(rig.loop->result().straggle_count == 3);
}

TEST_CASE("operations go out in the backend's batches, each stamped when its own goes out") {
  LoopRig rig(LoopRig::Closed(1, 10), 1, 0, 1, 4);
  rig.backend.submit_cost = 20 * kMicrosecond;
  rig.backend.latency = [](const IoOp&, size_t) { return 500 * kMillisecond; };
  rig.Begin();
  rig.loop->Step();
  REQUIRE(rig.backend.seen.size() == 10);
  CHECK(rig.backend.submits == 3);  // 4 + 4 + 2
  for (size_t i = 0; i < 10; ++i) {
    CHECK(rig.backend.seen[i].submitted == kT0 + static_cast<Nanos>(i / 4) * 20 * kMicrosecond);
  }
  rig.Run();
  const KindDelta read = LoopRig::Kind(rig.deltas[0]);
  CHECK(read.completed == 10);
  CHECK(read.wait.moments.count == 0);  // none waited: none was offered before its own call
  CHECK(read.response.moments.min >= 500 * kMillisecond);
  CHECK(read.response.moments.max <= 500 * kMillisecond + 60 * kMicrosecond);
}

TEST_CASE("what a full backend leaves of a batch waits, and so does all behind it") {
  LoopRig rig(LoopRig::Closed(1, 10), 1, 0, 1, 4);
  rig.backend.limit = 5;
  rig.backend.submit_cost = 20 * kMicrosecond;
  rig.backend.latency = [](const IoOp&, size_t) { return 100 * kMillisecond; };
  rig.Begin();
  rig.loop->Step();
  CHECK(rig.backend.submits == 2);
  CHECK(rig.backend.seen.size() == 5);
  rig.Run();
  const KindDelta read = LoopRig::Kind(rig.deltas[0]);
  CHECK(read.wait.moments.count > 0);
  // 5 of 10 at a time: each of the others waits for one of those, a tenth of a second.
  CHECK(read.wait.moments.max >= 99 * kMillisecond);
  CHECK(read.wait.moments.max <= 101 * kMillisecond);
  CHECK(rig.Totals().submitted == rig.Totals().completed);
}

TEST_CASE("depth integrals equal a brute-force sum over operations, whatever the latencies") {
  Rng rng(17);
  LoopRig rig(LoopRig::Closed(3, 5), 4, 0, 2);
  rig.backend.limit = 22;  // sometimes full
  rig.backend.submit_cost = 1'700;
  rig.backend.reap_cost = 300;
  rig.backend.latency = [&](const IoOp&, size_t) { return static_cast<Nanos>(rng.Below(3 * kMillisecond)); };
  rig.Begin(12'345);
  rig.Run();
  REQUIRE(rig.status.ok());
  std::vector<std::array<Uint128, 2>> wire(4);
  for (const ScriptedBackend::Seen& seen : rig.backend.seen) {
    const uint32_t group = seen.op.tag < 15 ? 0 : 1;
    for (int k = 0; k < 4; ++k) {
      const Nanos begin = std::max(seen.submitted, kT0 + k * kSecond);
      const Nanos end = std::min(seen.done, kT0 + (k + 1) * kSecond);
      if (begin < end) wire[k][group] += static_cast<Uint128>(end - begin);
    }
  }
  uint64_t full = 0;
  for (int k = 0; k < 4; ++k) {
    for (uint32_t g = 0; g < 2; ++g) {
      const InitiatorDelta& initiator = rig.deltas[k].initiators[g];
      CHECK(Uint128ToString(initiator.wire_integral) == Uint128ToString(wire[k][g]));
      CHECK(initiator.offered_integral >= initiator.wire_integral);
      CHECK(initiator.offered_integral <= Uint128{15} * kSecond);
      full += initiator.time_full;
    }
  }
  CHECK(full > 0);
}

TEST_CASE("offered minus wire is the sum of waits") {
  Rng rng(23);
  LoopRig rig(LoopRig::Closed(1, 8), 2);
  rig.backend.limit = 5;
  rig.backend.latency = [&](const IoOp&, size_t) { return static_cast<Nanos>(1 + rng.Below(2 * kMillisecond)); };
  rig.Begin();
  rig.Run();
  Uint128 offered = 0;
  Uint128 wire = 0;
  uint64_t waits = 0;
  uint64_t responses = 0;
  for (const IntervalDelta& delta : rig.All()) {
    offered += delta.initiators[0].offered_integral;
    wire += delta.initiators[0].wire_integral;
    waits += LoopRig::Kind(delta).wait.moments.sum;
    responses += LoopRig::Kind(delta).response.moments.sum;
  }
  CHECK(waits > 0);
  CHECK(Uint128ToString(offered - wire) == std::to_string(waits));
  CHECK(Uint128ToString(offered) == std::to_string(responses));
}

TEST_CASE("stamp error is the time from one look at completions to the next") {
  LoopRig rig(LoopRig::Closed(1, 1), 1);
  rig.backend.submit_cost = 7 * kMicrosecond;
  rig.backend.reap_cost = 2 * kMicrosecond;
  rig.backend.latency = [](const IoOp&, size_t) { return 0; };
  rig.Begin();
  rig.Run();
  // Never in a wait: submit and reap lie between two looks.
  CHECK(rig.deltas[0].stamp_error == 9 * kMicrosecond);
  CHECK(rig.deltas[0].poll_gap_max == 9 * kMicrosecond);
  // In a wait until the operation ends: only the reap is left.
  LoopRig waiting(LoopRig::Closed(1, 1), 1);
  waiting.backend.submit_cost = 7 * kMicrosecond;
  waiting.backend.reap_cost = 2 * kMicrosecond;
  waiting.Begin();
  waiting.Run();
  CHECK(waiting.deltas[0].stamp_error == 2 * kMicrosecond);
}

TEST_CASE("kinds and initiators are kept apart, bytes a kind") {
  Workload work = LoopRig::Closed(2, 2);
  work.read = 0.6;
  work.trim = 0.1;
  work.flush_every = 8;
  LoopRig rig(work, 2, 1, 3);
  rig.Begin();
  rig.Run();
  std::map<std::pair<uint32_t, OpKind>, uint64_t> seen;
  for (const auto& s : rig.backend.seen) {
    ++seen[{static_cast<uint32_t>(s.op.tag / 4), static_cast<OpKind>(s.op.kind)}];
  }
  for (uint32_t initiator = 0; initiator < 3; ++initiator) {
    for (int kind = 0; kind < kOpKinds; ++kind) {
      const auto k = static_cast<OpKind>(kind);
      const KindTotals totals = rig.Totals(initiator, k);
      CHECK(totals.submitted == seen[std::pair(initiator, k)]);
      CHECK(totals.submitted > 0);
      uint64_t completed = 0;
      uint64_t bytes = 0;
      for (const IntervalDelta& delta : rig.All()) {
        const KindDelta d = LoopRig::Kind(delta, initiator, k);
        CHECK(d.completed == LoopRig::Of(d.response).count());
        completed += d.completed;
        bytes += d.bytes;
      }
      CHECK(completed == totals.completed);
      CHECK(bytes == totals.bytes);
      CHECK(bytes == (k == OpKind::kFlush ? 0 : completed * 4096));
    }
  }
}

TEST_CASE("failed operations are in no rate and no success histogram, but counted by class") {
  LoopRig rig(LoopRig::Closed(1, 4), 2);
  rig.backend.outcome = [](const IoOp&, size_t n) {
    return n % 10 == 3 ? IoOutcome::kIo : n % 10 == 7 ? IoOutcome::kShort : IoOutcome::kOk;
  };
  rig.Begin();
  rig.Run();
  uint64_t completed = 0;
  std::map<Outcome, uint64_t> errors;
  for (const IntervalDelta& delta : rig.All()) {
    const KindDelta read = LoopRig::Kind(delta);
    completed += read.completed;
    for (const ErrorDelta& error : read.errors) {
      errors[error.outcome] += error.count;
      CHECK(error.native_code == 5);
      CHECK(error.response.moments.count == error.count);
      CHECK(error.response.moments.max == 100 * kMicrosecond);
    }
  }
  const KindTotals totals = rig.Totals();
  CHECK(totals.submitted == totals.completed + totals.failed);
  CHECK(completed == totals.completed);
  CHECK(errors[Outcome::kIo] + errors[Outcome::kShort] == totals.failed);
  CHECK(errors[Outcome::kIo] == totals.submitted / 10);
  CHECK(totals.bytes == completed * 4096);
}

TEST_CASE("every write carries content of its own, made before it is due") {
  Workload work = LoopRig::Closed(1, 4);
  work.read = 0;
  LoopRig rig(work, 1);
  std::set<std::string> contents;
  size_t writes = 0;
  rig.backend.latency = [&](const IoOp& op, size_t) {
    contents.emplace(reinterpret_cast<const char*>(op.buffer), op.bytes);
    ++writes;
    return 20 * kMillisecond;
  };
  rig.Begin();
  rig.Run();
  CHECK(writes >= 196);
  CHECK(contents.size() == writes);
  CHECK(LoopRig::Kind(rig.deltas[0], 0, OpKind::kWrite).wait.moments.count == 0);
}

TEST_CASE("buffers belong to their operation until it is done") {
  LoopRig rig(LoopRig::Closed(2, 8), 1);
  Rng rng(3);
  std::set<uint8_t*> out;
  rig.backend.latency = [&](const IoOp& op, size_t) {
    CHECK(reinterpret_cast<uintptr_t>(op.buffer) % 4096 == 0);
    CHECK(out.insert(op.buffer).second);
    return static_cast<Nanos>(rng.Below(2 * kMillisecond));
  };
  rig.backend.outcome = [&](const IoOp& op, size_t) {
    CHECK(out.erase(op.buffer) == 1);
    return IoOutcome::kOk;
  };
  rig.Begin();
  rig.Run();
  CHECK(rig.Totals().completed > 5000);
}

}  // namespace
}  // namespace muster
