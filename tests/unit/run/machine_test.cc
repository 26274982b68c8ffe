#include <fmt/format.h>

#include <algorithm>

#include "tests/unit/run/machine_harness.h"

namespace muster {
namespace {

using Strings = std::vector<std::string>;

TEST_CASE("guards attach first, one a host, the others after their answer and with its generation") {
  Harness h(4, {"x", "y", "x", "x"});
  h.plan.steps = {OneStep(0, 4, "f")};
  h.Begin();
  CHECK(h.sent == Strings{"a: attach 0 guard", "b: attach 0 guard"});
  h.Attached("b", 0, 9);
  CHECK(h.sent.size() == 2);
  h.Attached("a", 0, 8);
  REQUIRE(h.sent.size() == 4);
  CHECK(h.sent[2] == "c: attach 0");
  CHECK(h.Last<AttachCommand>().generation == 8);
}

TEST_CASE("a target is attached once, for all steps: largest objects, smallest block, writes of any") {
  Harness h(1);
  h.plan.steps = {OneStep(0, 1), OneStep(1, 1)};
  h.plan.steps[1].objects[0].size = 1 << 23;
  h.plan.steps[1].measure.workload.block = 512;
  h.plan.steps[1].writes = true;
  h.Begin();
  const auto attach = h.Last<AttachCommand>();
  CHECK(attach.objects.at(0).size == 1 << 23);
  CHECK(attach.min_block == 512);
  CHECK(attach.writes);
  h.ToRunning({"a"});
  const PhaseKey key = h.Key(PhaseKind::kMeasure);
  for (int64_t k = 0; k < 3; ++k) h.Interval("a", key, k, {0});
  h.Ended("a", key, 2, {0});
  REQUIRE(h.results.size() == 1);
  CHECK(h.results[0].outcome == StepOutcome::kValid);
  CHECK(h.sent.back() == "a: prepare measure 1.0");
}

TEST_CASE("the start instant is 500 ms ahead, or 4 x the worst round trip") {
  Harness h(2);
  h.plan.steps = {OneStep(0, 2)};
  h.Begin();
  const Nanos round_trip = GENERATE(kMillisecond, 300 * kMillisecond, 100 * kSecond);
  h.Says("b", ClockNews{{.offset = 0, .error = 1, .round_trip = round_trip}});
  h.Attached("a");
  h.Attached("b");
  h.Prepared("a", h.Key(PhaseKind::kMeasure));
  CHECK(h.t0 == 0);  // a barrier: nobody starts before all are prepared
  h.Prepared("b", h.Key(PhaseKind::kMeasure));
  const Nanos lead = h.t0 - h.now;
  if (round_trip == kMillisecond) CHECK(lead == 500 * kMillisecond);
  if (round_trip == 300 * kMillisecond) CHECK(lead == 1200 * kMillisecond);
  if (round_trip == 100 * kSecond) CHECK(lead == 5 * kSecond);  // never beyond what agents accept
}

TEST_CASE("a missed start repeats the whole barrier three times, then fails") {
  Harness h(2);
  h.plan.steps = {OneStep(0, 2)};
  h.Begin();
  h.Attached("a");
  h.Attached("b");
  for (uint32_t attempt = 0; attempt < 4; ++attempt) {
    const PhaseKey key = h.Key(PhaseKind::kMeasure, 0, attempt);
    CHECK(h.sent.back() == fmt::format("b: prepare measure 0.{}", attempt));
    h.Prepared("a", key);
    h.Prepared("b", key);
    h.Started("a", key);
    h.Started("b", key, /*missed=*/true);
    CHECK(h.sent.back() == "b: stop now");
    h.Ended("a", key, -1, {0});
    h.Ended("b", key, -1, {1});
  }
  CHECK(h.sent.back() == "b: detach");
  REQUIRE(h.results.size() == 1);
  CHECK(h.results[0].outcome == StepOutcome::kFailed);
  CHECK(h.Code() == "START_MISSED");
  CHECK(h.did.back() == "seal 0.3");
}

TEST_CASE("reports are committed, then acknowledged; a step is sealed when all are committed") {
  Harness h(1);
  h.plan.steps = {OneStep(0, 1)};
  h.Begin();
  h.ToRunning({"a"});
  const PhaseKey key = h.Key(PhaseKind::kMeasure);
  h.store = false;
  for (int64_t k = 0; k < 3; ++k) h.Interval("a", key, k, {0});
  h.Ended("a", key, 2, {0});
  CHECK(h.did == Strings{"commit a 1", "commit a 2", "commit a 3", "commit a 4"});
  h.Feed(ReportsCommitted{"a", 3});
  CHECK(h.did.back() == "ack a 3");
  h.store = true;
  h.Feed(ReportsCommitted{"a", 4});
  REQUIRE(h.results.size() == 1);
  CHECK(h.results[0].figures.fleet.kinds.at(0).completed == 2);
  h.Detached("a");
  CHECK(h.machine().done());
  CHECK(h.machine().outcome() == "complete");
}

TEST_CASE("a silent agent is told of, and lost when it stays silent for the op timeout") {
  Harness h(2);
  h.plan.steps = {OneStep(0, 2), OneStep(1, 2)};
  h.plan.steps[0].measure.window_intervals = 1000;
  h.Begin();
  h.ToRunning({"a", "b"});
  const PhaseKey key = h.Key(PhaseKind::kMeasure);
  for (int64_t k = 0; k < 3; ++k) {
    h.now = h.t0 + (k + 1) * kSecond;
    h.Interval("a", key, k, {0});
    if (k < 2) h.Interval("b", key, k, {1});
  }
  // Interval 2 of b ends at t0 + 3 s: silent 2 s + 3 intervals later.
  const Nanos silent = h.t0 + 8 * kSecond;
  for (int64_t k = 3; k < 7; ++k) {
    h.now = h.t0 + (k + 1) * kSecond;
    h.Interval("a", key, k, {0});
  }
  h.At(silent - 1);
  CHECK(h.told.empty());
  h.At(silent);
  REQUIRE(h.told.size() == 1);
  CHECK_THAT(h.told[0], Catch::Contains("agent b is silent: interval 2"));
  SECTION("it comes back") {
    h.Interval("b", key, 2, {1});
    CHECK_THAT(h.told.at(1), Catch::Contains("delivers again"));
  }
  SECTION("it does not") {
    for (int64_t k = 7; k < 17; ++k) {
      h.now = h.t0 + (k + 1) * kSecond;
      h.Interval("a", key, k, {0});
    }
    h.At(silent + h.plan.op_timeout - 1);
    CHECK(h.sent.back() == "b: start 0.0");
    h.At(silent + h.plan.op_timeout);
    CHECK(h.did.back() == "drop b AGENT_SILENT");
    CHECK(h.sent.back() == "a: stop after 19");  // one edge for all who are left; nothing goes to b
    for (int64_t k = 17; k < 20; ++k) h.Interval("a", key, k, {0});
    h.Ended("a", key, 19, {0});
    CHECK(h.sent.back() == "a: detach");
    h.Detached("a");
    REQUIRE(h.results.size() == 2);
    CHECK(h.results[0].outcome == StepOutcome::kInvalid);
    CHECK(h.results[0].figures.intervals == 1);
    CHECK(h.results[0].figures.lost_agents == Strings{"b"});
    CHECK(h.results[1].outcome == StepOutcome::kSkipped);
    CHECK(h.machine().outcome() == "aborted");
  }
}

TEST_CASE("live figures are shown when the last report of an interval has come, at most every 200 ms") {
  Harness h(2);
  h.plan.steps = {OneStep(0, 2)};
  h.plan.interval = GENERATE(values<Nanos>({kSecond, 100 * kMillisecond}));
  h.plan.steps[0].measure.window_intervals = 8;
  h.Begin();
  h.ToRunning({"a", "b"});
  std::vector<Nanos> at;
  for (int64_t k = 0; k < 9; ++k) {
    h.now = h.t0 + (k + 1) * h.plan.interval + kMillisecond;
    h.Interval("a", h.Key(PhaseKind::kMeasure), k, {0});
    h.now += 20 * kMillisecond;
    h.Interval("b", h.Key(PhaseKind::kMeasure), k, {1});
    if (h.live.size() > at.size()) at.push_back(h.now);
    if (h.plan.interval == kSecond) {
      REQUIRE(h.live.size() == static_cast<size_t>(k) + 1);
      CHECK(h.live.back().interval == k);
    }
  }
  for (size_t i = 1; i < at.size(); ++i) CHECK(at[i] - at[i - 1] >= 200 * kMillisecond);
  CHECK(at.size() >= 4);
}

TEST_CASE("nobody is called silent while the store is behind") {
  Harness h(1);
  h.plan.steps = {OneStep(0, 1)};
  h.plan.steps[0].measure.window_intervals = 1000;
  h.Begin();
  h.ToRunning({"a"});
  h.store = false;
  h.now = h.t0 + kSecond;
  h.Interval("a", h.Key(PhaseKind::kMeasure), 0, {0});
  h.At(h.t0 + 30 * kSecond);
  CHECK(h.told.empty());
  h.At(h.t0 + kSecond + 60 * kSecond);  // but the store has a deadline of its own
  CHECK(h.Code() == "STORE_STALLED");
  CHECK(h.sent.back() == "a: stop now");
}

TEST_CASE("cancel ends at the edge after the current interval, twice at once") {
  Harness h(1);
  h.plan.steps = {OneStep(0, 1), OneStep(1, 1)};
  h.plan.steps[0].measure.window_intervals = 1000;
  h.Begin();
  h.ToRunning({"a"});
  const PhaseKey key = h.Key(PhaseKind::kMeasure);
  for (int64_t k = 0; k < 4; ++k) h.Interval("a", key, k, {0});
  h.now = h.t0 + 4 * kSecond + 1;
  h.Feed(CancelAsked{1});
  CHECK(h.sent.back() == "a: stop after 5");
  h.Feed(CancelAsked{2});
  CHECK(h.sent.back() == "a: stop now");
  h.Ended("a", key, 3, {0});
  h.Detached("a");
  REQUIRE(h.results.size() == 2);
  CHECK(h.results[0].outcome == StepOutcome::kCancelled);
  CHECK(h.results[0].figures.intervals == 3);
  CHECK(h.results[0].figures.missing_count == 0);  // of the shorter window
  CHECK(h.results[1].outcome == StepOutcome::kSkipped);
  CHECK(h.machine().outcome() == "cancelled");
}

TEST_CASE("a step that ends anyway is measured whole when it is cancelled, the run ends after it") {
  Harness h(1);
  h.plan.steps = {OneStep(0, 1), OneStep(1, 1)};
  h.Begin();
  h.ToRunning({"a"});
  h.now = h.t0 + kSecond + 1;  // in interval 1 of 0..2
  h.Feed(CancelAsked{1});
  CHECK(h.sent.back() == "a: start 0.0");
  for (int64_t k = 0; k < 3; ++k) h.Interval("a", h.Key(PhaseKind::kMeasure), k, {0});
  h.Ended("a", h.Key(PhaseKind::kMeasure), 2, {0});
  h.Detached("a");
  CHECK(h.results.at(0).outcome == StepOutcome::kValid);
  CHECK(h.results.at(1).outcome == StepOutcome::kSkipped);
  CHECK(h.machine().outcome() == "cancelled");
}

TEST_CASE("an overloaded agent ends the step for all; the run goes on") {
  Harness h(2);
  h.plan.steps = {OneStep(0, 2), OneStep(1, 1)};
  h.plan.steps[0].measure.window_intervals = 1000;
  h.Begin();
  h.ToRunning({"a", "b"});
  const PhaseKey key = h.Key(PhaseKind::kMeasure);
  h.now = h.t0 + 3 * kSecond;
  for (int64_t k = 0; k < 3; ++k) h.Interval("a", key, k, {0});
  for (int64_t k = 0; k < 3; ++k) h.Interval("b", key, k, {1});
  h.Ended("a", key, 2, {0}, {}, /*overloaded=*/true);
  CHECK(h.sent.back() == "b: stop after 4");
  for (int64_t k = 3; k < 5; ++k) h.Interval("b", key, k, {1});
  h.Ended("b", key, 4, {1});
  REQUIRE(h.results.size() == 1);
  CHECK(h.results[0].outcome == StepOutcome::kOverloaded);
  CHECK(h.results[0].figures.intervals == 2);
  CHECK(h.results[0].figures.sums_error.ok());
  CHECK(h.machine().any_invalid());
  CHECK(h.sent.back() == "a: prepare measure 1.0");
}

TEST_CASE("a fill is dealt over the agents and must write all of it") {
  Harness h(2);
  h.plan.steps = {OneStep(0, 1)};
  h.plan.steps[0].fill_passes = 2;
  h.Begin();
  h.Attached("a");
  h.Attached("b");
  uint64_t dealt = 0;
  for (const AgentCommand& command : h.commands) {
    const auto* prepare = std::get_if<PrepareCommand>(&command);
    if (prepare == nullptr) continue;
    const auto& fill = std::get<FillSpec>(prepare->spec.work);
    CHECK(fill.passes == 2);
    for (const FillExtent& extent : fill.extents) dealt += extent.length;
  }
  CHECK(dealt == uint64_t{1} << 22);
  const PhaseKey key = h.Key(PhaseKind::kFill);
  for (const char* id : {"a", "b"}) h.Prepared(id, key);
  for (const char* id : {"a", "b"}) h.Started(id, key);
  const auto ended = [&](const std::string& id, uint64_t bytes) {
    PhaseEnded end;
    InitiatorTotals& totals = end.totals.initiators.emplace_back();
    totals.kinds[static_cast<size_t>(OpKind::kWrite)] = {.submitted = 1, .completed = 1, .bytes = bytes};
    h.Says(id, AgentReport{.key = key, .sequence = ++h.sequences[id], .body = std::move(end), .bytes = "x"});
  };
  ended("a", 1 << 22);
  SECTION("written") {
    ended("b", 1 << 22);
    CHECK(h.sent.back() == "a: prepare measure 0.0");
  }
  SECTION("not all of it") {
    ended("b", (1 << 22) - 4096);
    CHECK(h.Code() == "FILL_INCOMPLETE");
    CHECK(h.results.at(0).outcome == StepOutcome::kFailed);
    CHECK(h.sent.back() == "b: detach");
  }
}

TEST_CASE("files of an agent that is lost before it detaches are named, kept ones are not") {
  const bool keep = GENERATE(false, true);
  Harness h(2, {"h1", "h2"});
  std::get<FileTarget>(h.plan.targets[1].kind).keep = keep;
  h.plan.steps = {OneStep(0, 2, "f")};
  h.plan.steps[0].writes = true;
  h.Begin();
  h.Attached("a", 0, 1);
  h.Attached("b", 0, 1);
  h.Says("b", AgentGone{Oops("LINK_BROKEN")});
  h.Says("a", PrepareDone{.key = h.Key(PhaseKind::kMeasure)});
  h.At(h.now + 20 * kSecond);
  h.At(h.now + 20 * kSecond);
  h.Detached("a");
  const bool named = std::any_of(h.told.begin(), h.told.end(), [](const std::string& text) {
    return text.find("agent b was lost") != std::string::npos && text.find("/d/muster-data") != std::string::npos;
  });
  CHECK(named == !keep);
}

TEST_CASE("what a phase that never began did not measure is not judged") {
  Harness h(1);
  h.plan.steps = {OneStep(0, 1)};
  h.Begin();
  h.Attached("a");
  h.Says("a", PrepareDone{.key = h.Key(PhaseKind::kMeasure), .status = Oops("BUFFER_MEMORY")});
  h.Detached("a");
  REQUIRE(h.results.size() == 1);
  CHECK(h.results[0].outcome == StepOutcome::kFailed);
  CHECK_THAT(h.results[0].message, Catch::Contains("BUFFER_MEMORY"));
  CHECK(h.results[0].figures.sums_error.ok());
  CHECK(h.results[0].checks.empty());
}

TEST_CASE("what an agent says of a target names the place in the campaign, target, agent and host") {
  const char* place = "lab.yaml:4:3 target t, agent a on nas1";
  Harness refused(1);
  refused.plan.steps = {OneStep(0, 1)};
  refused.Begin();
  const PhaseKey attach = refused.Key(PhaseKind::kAttach);
  refused.Says("a", AttachDone{.key = attach, .status = AtPlace(Oops("TARGET_MOUNTED"), "/dev/sdb")});
  CHECK(GetErrorInfo(refused.machine().error()).place == std::string(place) + ": /dev/sdb");
  Harness unprepared(1);
  unprepared.plan.steps = {OneStep(0, 1)};
  unprepared.Begin();
  unprepared.Attached("a");
  unprepared.Says("a", PrepareDone{.key = unprepared.Key(PhaseKind::kMeasure), .status = Oops("SYS_EIO")});
  CHECK_THAT(GetErrorInfo(unprepared.machine().error()).place, Catch::StartsWith(place));
}

TEST_CASE("an agent that carries nothing in this step may be lost without harm to it; the run ends after it") {
  Harness h(2);
  h.plan.steps = {OneStep(0, 1), OneStep(1, 1)};
  h.Begin();
  h.Attached("a");
  h.Attached("b");
  h.Prepared("a", h.Key(PhaseKind::kMeasure));
  h.Started("a", h.Key(PhaseKind::kMeasure));
  h.Says("b", AgentGone{Oops("LINK_BROKEN")});
  for (int64_t k = 0; k < 3; ++k) h.Interval("a", h.Key(PhaseKind::kMeasure), k, {0});
  h.Ended("a", h.Key(PhaseKind::kMeasure), 2, {0});
  h.Detached("a");
  CHECK(h.results.at(0).outcome == StepOutcome::kValid);
  CHECK(h.results.at(1).outcome == StepOutcome::kSkipped);
  CHECK(h.machine().outcome() == "aborted");
  CHECK(h.Code() == "LINK_BROKEN");
}

TEST_CASE("a phase that ended before it was stopped is waited for: its totals may come after the refusal of the stop") {
  Harness h(2);
  h.plan.steps = {OneStep(0, 2)};
  h.Begin();
  h.Attached("a");
  h.Attached("b");
  const PhaseKey key = h.Key(PhaseKind::kMeasure);
  h.Prepared("a", key);
  h.Prepared("b", key);
  h.Started("a", key);
  h.Ended("b", key, -1, {}, Oops("ENGINE"));  // its answer to Start is still under way: the attempt is undone
  CHECK(h.sent.back() == "a: stop now");
  h.Says("a", Refused{key, Oops("MESSAGE_STALE")});
  CHECK(h.results.empty());
  h.Interval("a", key, 0, {0});
  h.Ended("a", key, 0, {0});
  CHECK(h.did.back() == "seal 0.0");
  CHECK(h.results.at(0).outcome == StepOutcome::kFailed);
  CHECK(h.Code() == "ENGINE");
}

TEST_CASE("sequences: a repeated report is rejected, a gap gives the agent up") {
  Harness h(1);
  h.plan.steps = {OneStep(0, 1)};
  h.Begin();
  h.ToRunning({"a"});
  const PhaseKey key = h.Key(PhaseKind::kMeasure);
  h.Interval("a", key, 0, {0});
  h.sequences["a"] = 0;
  h.Interval("a", key, 0, {0});
  CHECK_THAT(h.told.at(0), Catch::Contains("agent a: report 1") && Catch::Contains("rejected"));
  CHECK(h.did == Strings{"commit a 1", "ack a 1"});
  h.sequences["a"] = 5;
  h.Interval("a", key, 1, {0});
  CHECK(h.did.at(2) == "refuse a REPORT_OUT_OF_ORDER");
  CHECK(h.Code() == "REPORT_OUT_OF_ORDER");
  CHECK(h.machine().done());  // nobody is left to wait for
}

TEST_CASE("a failed store ends the run: load stopped, targets released, nothing acknowledged") {
  Harness h(1);
  h.plan.steps = {OneStep(0, 1), OneStep(1, 1)};
  h.Begin();
  h.ToRunning({"a"});
  const PhaseKey key = h.Key(PhaseKind::kMeasure);
  h.Feed(StoreFailed{Oops("STORE_FULL")});
  CHECK(h.sent.back() == "a: stop now");
  h.Interval("a", key, 0, {0});
  h.Ended("a", key, 0, {0});
  CHECK(h.did.empty());
  CHECK(h.sent.back() == "a: detach");
  h.Detached("a");
  CHECK(h.results.size() == 2);
  CHECK(h.machine().done());
  CHECK(h.machine().outcome() == "failed");
  CHECK(h.Code() == "STORE_FULL");
}

TEST_CASE("a run without steps, and one whose every step is skipped, end at once") {
  Harness h(1);
  if (GENERATE(false, true)) {
    h.plan.steps = {OneStep(0, 1)};
    h.plan.steps[0].skip_reason = "cannot be";
  }
  h.Begin();
  CHECK(h.machine().done());
  CHECK(h.machine().outcome() == "complete");
  CHECK_FALSE(h.machine().any_invalid());
  CHECK(h.sent.empty());
}

}  // namespace
}  // namespace muster
