#include "tests/unit/store/results.h"

#include <bit>
#include <catch2/catch.hpp>

#include "common/base/rng.h"
#include "common/base/status.h"

namespace muster::test {
namespace {

Histogram RandomHistogram(Rng& rng, size_t values) {
  Histogram out;
  for (size_t i = 0; i < values; ++i) out.Record(rng.Next() >> (20 + rng.Below(40)));
  return out;
}

KindFigures RandomKind(Rng& rng, std::optional<OpKind> kind, int form) {
  KindFigures out;
  out.kind = kind;
  out.completed = rng.Next();
  out.bytes = rng.Next();
  out.failed = rng.Next();
  out.response_max = rng.Next();
  if (form == 0) return out;  // nothing happened
  out.response = RandomHistogram(rng, 500);
  if (form == 1) {  // closed loop without waits
    REQUIRE(out.wait.RecordMany(0, out.response.count()).ok());
    out.service = out.response;
  } else if (form == 2) {
    out.wait = RandomHistogram(rng, 400);
    out.service = RandomHistogram(rng, 400);
  }  // else: open loop, nothing ended, ages alone
  return out;
}

GroupFigures RandomGroup(Rng& rng, std::string name) {
  GroupFigures out;
  out.name = std::move(name);
  out.agent = "agent-" + std::to_string(rng.Below(10));
  out.kinds.push_back(RandomKind(rng, std::nullopt, 2));
  for (int k = 0; k < kOpKinds; ++k) out.kinds.push_back(RandomKind(rng, static_cast<OpKind>(k), k));
  out.asked_depth = rng.Unit() * 100;
  out.achieved_depth = rng.Unit() * 100;
  out.wire_depth = rng.Unit();
  out.time_full_share = rng.Unit();
  out.lateness = RandomHistogram(rng, rng.Below(3) * 10);
  return out;
}

Step RandomStep(Rng& rng, uint32_t index) {
  Step s;
  s.index = index;
  s.name = "db[initiators=2,load=1T4Q]";
  s.campaign_step = "db";
  s.sweep_point = {{"initiators", "2"}, {"load", "1T4Q"}};
  s.target = "scratch";
  s.objects = {{.slot = 0, .name = "data.0", .size = 1 << 20}, {.slot = 1, .name = "data.1", .size = 1 << 21}};
  s.initiators = 2;
  s.initiators_max = 24;
  s.fill_passes = 2;
  s.fill.seed = rng.Next();
  s.fill.extents = {{.slot = 1, .offset = 4096, .length = 8192}};
  s.measure.warmup_intervals = 3;
  s.measure.window_intervals = 9;
  Workload& w = s.measure.workload;
  w.block = 8192;
  w.pattern = Pattern::kSequential;
  w.read = 0.7;
  w.trim = 0.01;
  w.flush_every = 16;
  w.size = 3 << 20;
  w.layout = Layout::kPartition;
  w.load = {.streams = 1, .depth = 4};
  w.pacing = Pacing::kPoisson;
  w.rate = 12345.5;
  w.rate_per = RatePer::kInitiator;
  w.max_outstanding = 77;
  w.overload_after = 5 * kSecond;
  w.seed = rng.Next();
  s.writes = true;
  s.estimated = 17 * kSecond;
  s.bytes_written_at_least = 6 << 20;
  return s;
}

void FillFigures(Rng& rng, StepFigures& f) {
  f.interval = 2 * kSecond;
  f.first_interval = 3;
  f.intervals_asked = 9;
  f.intervals = 8;
  f.fleet = RandomGroup(rng, "fleet");
  f.fleet.agent.clear();
  for (int i = 0; i < 3; ++i) f.initiators.push_back(RandomGroup(rng, std::to_string(i)));
  for (int i = 0; i < 3; ++i) {
    ErrorFigures& e = f.errors.emplace_back();
    e.kind = static_cast<OpKind>(i);
    e.outcome = static_cast<Outcome>(1 + i);
    e.native_code = -5 - i;
    e.count = rng.Below(1000);
    e.response = RandomHistogram(rng, 20);
  }
  f.missing = {"agent a interval 4 (gap)", "agent b interval 5 (lost)"};
  f.missing_count = 70;
  f.initiators_asked = 4;
  f.initiators_heard = 3;
  f.lost_agents = {"b"};
  f.left_out = {"c", "d"};
  f.left_out_initiators = 5;
  f.lost = {{.attempt = 1, .intervals = 3, .group = RandomGroup(rng, "lost")}};
  f.restarts = 2;
  f.straggle_count = 1000;
  f.stragglers = {{.initiator = 1, .kind = OpKind::kTrim, .age_at_end = 5, .final_age = 9, .ended = true},
                  {.initiator = 2, .kind = OpKind::kRead, .age_at_end = 6, .final_age = 8, .ended = false}};
  f.straggle_oldest = 9;
  f.edge_error = 11;
  f.stamp_error = 12;
  f.poll_gap_max = 13;
  f.hiccup = RandomHistogram(rng, 30);
  f.cpu_share = rng.Unit() * 3;
  f.overloaded = true;
  f.poisoned = true;
  f.held = 21;
  f.held_uncounted = 22;
  f.held_owed = 23;
  f.connections = {{.initiator = 1, .connection = 2, .down = 3, .counters = {{"commands", 4}, {"reconnects", 5}}}};
  f.sums_error = MakeError(absl::StatusCode::kDataLoss,
                           {.code = "SUMS_MISMATCH", .place = "agent b", .message = "1 is not 2", .next = "Refused."});
}

bool SameBits(double a, double b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

void CheckSame(const GroupFigures& a, const GroupFigures& b) {
  CHECK(a.name == b.name);
  CHECK(a.agent == b.agent);
  CHECK(SameBits(a.asked_depth, b.asked_depth));
  CHECK(SameBits(a.achieved_depth, b.achieved_depth));
  CHECK(SameBits(a.wire_depth, b.wire_depth));
  CHECK(SameBits(a.time_full_share, b.time_full_share));
  CHECK(a.lateness == b.lateness);
  REQUIRE(a.kinds.size() == b.kinds.size());
  for (size_t i = 0; i < a.kinds.size(); ++i) muster::test::CheckSame(a.kinds[i], b.kinds[i]);
}

void CheckSame(const StepFigures& a, const StepFigures& b) {
  CHECK(a.interval == b.interval);
  CHECK(a.first_interval == b.first_interval);
  CHECK(a.intervals_asked == b.intervals_asked);
  CHECK(a.intervals == b.intervals);
  CheckSame(a.fleet, b.fleet);
  REQUIRE(a.initiators.size() == b.initiators.size());
  for (size_t i = 0; i < a.initiators.size(); ++i) CheckSame(a.initiators[i], b.initiators[i]);
  REQUIRE(a.errors.size() == b.errors.size());
  for (size_t i = 0; i < a.errors.size(); ++i) {
    CHECK(a.errors[i].kind == b.errors[i].kind);
    CHECK(a.errors[i].outcome == b.errors[i].outcome);
    CHECK(a.errors[i].native_code == b.errors[i].native_code);
    CHECK(a.errors[i].count == b.errors[i].count);
    CHECK(a.errors[i].response == b.errors[i].response);
  }
  CHECK(a.missing == b.missing);
  CHECK(a.missing_count == b.missing_count);
  CHECK(a.initiators_asked == b.initiators_asked);
  CHECK(a.initiators_heard == b.initiators_heard);
  CHECK(a.lost_agents == b.lost_agents);
  CHECK(a.left_out == b.left_out);
  CHECK(a.left_out_initiators == b.left_out_initiators);
  REQUIRE(a.lost.size() == b.lost.size());
  for (size_t i = 0; i < a.lost.size(); ++i) {
    CHECK(a.lost[i].attempt == b.lost[i].attempt);
    CHECK(a.lost[i].intervals == b.lost[i].intervals);
    CheckSame(a.lost[i].group, b.lost[i].group);
  }
  CHECK(a.restarts == b.restarts);
  CHECK(a.straggle_count == b.straggle_count);
  REQUIRE(a.stragglers.size() == b.stragglers.size());
  for (size_t i = 0; i < a.stragglers.size(); ++i) {
    CHECK(a.stragglers[i].initiator == b.stragglers[i].initiator);
    CHECK(a.stragglers[i].kind == b.stragglers[i].kind);
    CHECK(a.stragglers[i].age_at_end == b.stragglers[i].age_at_end);
    CHECK(a.stragglers[i].final_age == b.stragglers[i].final_age);
    CHECK(a.stragglers[i].ended == b.stragglers[i].ended);
  }
  CHECK(a.straggle_oldest == b.straggle_oldest);
  CHECK(a.edge_error == b.edge_error);
  CHECK(a.stamp_error == b.stamp_error);
  CHECK(a.poll_gap_max == b.poll_gap_max);
  CHECK(a.hiccup == b.hiccup);
  CHECK(SameBits(a.cpu_share, b.cpu_share));
  CHECK(a.overloaded == b.overloaded);
  CHECK(a.poisoned == b.poisoned);
  CHECK(a.held == b.held);
  CHECK(a.held_uncounted == b.held_uncounted);
  CHECK(a.held_owed == b.held_owed);
  CHECK(a.connections == b.connections);
  CHECK(a.sums_error == b.sums_error);
}

void CheckSame(const Step& a, const Step& b) {
  CHECK(a.index == b.index);
  CHECK(a.name == b.name);
  CHECK(a.campaign_step == b.campaign_step);
  CHECK(a.sweep_point == b.sweep_point);
  CHECK(a.target == b.target);
  REQUIRE(a.objects.size() == b.objects.size());
  for (size_t i = 0; i < a.objects.size(); ++i) {
    CHECK(a.objects[i].slot == b.objects[i].slot);
    CHECK(a.objects[i].name == b.objects[i].name);
    CHECK(a.objects[i].size == b.objects[i].size);
  }
  CHECK(a.initiators == b.initiators);
  CHECK(a.initiators_max == b.initiators_max);
  CHECK(a.fill_passes == b.fill_passes);
  CHECK(a.fill.seed == b.fill.seed);
  CHECK(a.fill.extents.size() == b.fill.extents.size());
  CHECK(a.measure.warmup_intervals == b.measure.warmup_intervals);
  CHECK(a.measure.window_intervals == b.measure.window_intervals);
  const Workload& v = a.measure.workload;
  const Workload& w = b.measure.workload;
  CHECK(v.block == w.block);
  CHECK(v.pattern == w.pattern);
  CHECK(SameBits(v.read, w.read));
  CHECK(SameBits(v.trim, w.trim));
  CHECK(v.flush_every == w.flush_every);
  CHECK(v.size == w.size);
  CHECK(v.layout == w.layout);
  CHECK(v.load == w.load);
  CHECK(v.pacing == w.pacing);
  CHECK(SameBits(v.rate, w.rate));
  CHECK(v.rate_per == w.rate_per);
  CHECK(v.max_outstanding == w.max_outstanding);
  CHECK(v.overload_after == w.overload_after);
  CHECK(v.seed == w.seed);
  CHECK(a.writes == b.writes);
  CHECK(a.estimated == b.estimated);
  CHECK(a.bytes_written_at_least == b.bytes_written_at_least);
  CHECK(a.skip_reason == b.skip_reason);
}

}  // namespace

StepResult RandomResult(uint32_t step, uint64_t seed) {
  Rng rng(seed);
  StepResult out;
  out.step = RandomStep(rng, step);
  constexpr StepOutcome kOutcomes[] = {StepOutcome::kValid, StepOutcome::kInvalid, StepOutcome::kOverloaded};
  out.outcome = kOutcomes[step % 3];
  out.message = "a message";
  FillFigures(rng, out.figures);
  out.checks = {{.name = "sums", .outcome = CheckOutcome::kFail, .evidence = "1 is not 2"},
                {.name = "errors", .outcome = CheckOutcome::kPass, .evidence = "0"},
                {.name = "intervals", .outcome = CheckOutcome::kNotEvaluated, .evidence = "cancelled"},
                {.name = "coverage", .outcome = CheckOutcome::kWarn, .evidence = "so so"}};
  out.facts = {{"local-1: ring flags", "SINGLE_ISSUER, DEFER_TASKRUN"}, {"local-1: mapping", "2 streams, 1 worker"}};
  out.start_skew = 21;
  out.clock_error = 22;
  out.fill_bytes = 23;
  out.fill_time = 24;
  return out;
}

FleetInterval RandomInterval(int64_t interval, uint64_t seed) {
  Rng rng(seed);
  FleetInterval out;
  out.interval = interval;
  out.in_window = interval >= 3;
  out.kinds[0] = RandomKind(rng, OpKind::kRead, 1);
  out.kinds[1] = RandomKind(rng, OpKind::kWrite, 2);
  for (uint32_t i = 0; i < 3; ++i) {
    InitiatorDelta& initiator = out.initiators.emplace_back();
    initiator.initiator = i;
    initiator.offered_integral = (Uint128{rng.Next()} << 64) | rng.Next();
    initiator.wire_integral = rng.Next();
    initiator.outstanding = rng.Next();
    initiator.waiting = rng.Next();
    initiator.oldest_age = static_cast<Nanos>(rng.Below(kSecond));
    initiator.time_full = static_cast<Nanos>(rng.Below(kSecond));
    for (bool due : {false, true}) {
      KindDelta& kind = initiator.kinds.emplace_back();
      kind.kind = OpKind::kWrite;
      kind.due_in_window = due;
      kind.response = RandomHistogram(rng, 300).Encode();
      kind.completed = kind.response.moments.count;
      kind.bytes = rng.Next() >> 8;
      if (due) {
        kind.wait = RandomHistogram(rng, 300).Encode();
        kind.service = RandomHistogram(rng, 300).Encode();
        kind.errors.push_back({.outcome = Outcome::kTimeout,
                               .native_code = 110,
                               .count = 2,
                               .response = RandomHistogram(rng, 2).Encode()});
        kind.unfinished = RandomHistogram(rng, 4).Encode();
      }
    }
    initiator.lateness = RandomHistogram(rng, i).Encode();
  }
  out.outstanding = rng.Next();
  out.waiting = rng.Next();
  out.oldest_age = 77;
  out.held = interval % 2 == 1;
  return out;
}

void DropCounts(FleetInterval& interval) {
  for (InitiatorDelta& initiator : interval.initiators) {
    for (KindDelta& kind : initiator.kinds) {
      for (EncodedHistogram* h : {&kind.response, &kind.wait, &kind.service, &kind.unfinished}) h->counts.clear();
      for (ErrorDelta& error : kind.errors) error.response.counts.clear();
    }
    initiator.lateness.counts.clear();
  }
}

void CheckSame(const KindFigures& a, const KindFigures& b) {
  CHECK(a.kind == b.kind);
  CHECK(a.completed == b.completed);
  CHECK(a.bytes == b.bytes);
  CHECK(a.failed == b.failed);
  CHECK(a.response_max == b.response_max);
  CHECK(a.response == b.response);
  CHECK(a.wait == b.wait);
  CHECK(a.service == b.service);
}

void CheckSame(const StepResult& a, const StepResult& b) {
  CheckSame(a.step, b.step);
  CHECK(a.outcome == b.outcome);
  CHECK(a.message == b.message);
  CheckSame(a.figures, b.figures);
  REQUIRE(a.checks.size() == b.checks.size());
  for (size_t i = 0; i < a.checks.size(); ++i) {
    CHECK(a.checks[i].name == b.checks[i].name);
    CHECK(a.checks[i].outcome == b.checks[i].outcome);
    CHECK(a.checks[i].evidence == b.checks[i].evidence);
  }
  CHECK(a.facts == b.facts);
  CHECK(a.start_skew == b.start_skew);
  CHECK(a.clock_error == b.clock_error);
  CHECK(a.fill_bytes == b.fill_bytes);
  CHECK(a.fill_time == b.fill_time);
}

void CheckSameFleet(const FleetInterval& a, const FleetInterval& b) {
  CHECK(a.interval == b.interval);
  CHECK(a.in_window == b.in_window);
  for (int k = 0; k < kOpKinds; ++k) CheckSame(a.kinds[k], b.kinds[k]);
  CHECK(a.outstanding == b.outstanding);
  CHECK(a.waiting == b.waiting);
  CHECK(a.oldest_age == b.oldest_age);
  CHECK(a.held == b.held);
}

}  // namespace muster::test
