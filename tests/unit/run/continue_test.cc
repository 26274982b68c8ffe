// on_agent_loss: continue. A lost agent costs its own part, never the run, and nothing that it may still do is in a
// figure.
#include <fmt/format.h>

#include <algorithm>

#include "tests/unit/run/machine_harness.h"

namespace muster {
namespace {

struct Fleet : Harness {
  explicit Fleet(int agents, std::vector<std::string> hosts = {}) : Harness(agents, std::move(hosts)) {
    plan.continue_on_loss = true;
    plan.steps = {OneStep(0, static_cast<uint32_t>(agents))};
  }
  void Lost(const std::string& agent) { Says(agent, AgentGone{Oops("LEASE_ENDED")}); }
  PhaseKey Measure(uint32_t attempt, uint32_t step = 0) const { return Key(PhaseKind::kMeasure, step, attempt); }
  // Lease, and op timeout + slack; the agents' clocks are exact here.
  Nanos Orphan() const { return 10 * kSecond + plan.op_timeout + 5 * kSecond; }
  void Run(uint32_t attempt, const std::map<std::string, uint32_t>& carried, uint32_t step = 0) {
    const PhaseKey key = Measure(attempt, step);
    for (const auto& [id, initiator] : carried) Prepared(id, key);
    for (const auto& [id, initiator] : carried) Started(id, key);
    for (int64_t k = 0; k < 3; ++k) {
      for (const auto& [id, initiator] : carried) Interval(id, key, k, {initiator});
    }
    for (const auto& [id, initiator] : carried) Ended(id, key, 2, {initiator});
  }
  bool Sent(const std::string& text) const { return std::find(sent.begin(), sent.end(), text) != sent.end(); }
};

}  // namespace

TEST_CASE("after a loss the window begins anew, without the lost agent and not before it must have stopped") {
  Fleet h(3);
  h.Begin();
  h.ToRunning({"a", "b", "c"});
  for (const char* id : {"a", "b", "c"}) h.Interval(id, h.Measure(0), 0, {static_cast<uint32_t>(id[0] - 'a')});
  h.now = h.t0 + 1'500 * kMillisecond;
  h.Lost("b");
  CHECK(h.Sent("a: stop now"));
  CHECK(h.Sent("c: stop now"));
  const Nanos lost_at = h.now;
  h.Ended("a", h.Measure(0), 0, {0});
  h.Ended("c", h.Measure(0), 0, {2});
  CHECK(!h.Sent("a: prepare measure 0.1"));
  h.At(lost_at + h.Orphan() - 1);
  CHECK(!h.Sent("a: prepare measure 0.1"));
  h.At(lost_at + h.Orphan());
  CHECK(h.Sent("a: prepare measure 0.1"));
  CHECK(h.Sent("c: prepare measure 0.1"));
  CHECK(!h.Sent("b: prepare measure 0.1"));
  // The others keep their initiators.
  CHECK(std::get<MeasureSpec>(h.Last<PrepareCommand>().spec.work).window_intervals == 2);
  CHECK(h.Last<PrepareCommand>().spec.initiators == std::vector<uint32_t>{2});
  h.Run(1, {{"a", 0}, {"c", 2}});
  REQUIRE(h.results.size() == 1);
  const StepResult& result = h.results[0];
  CHECK(result.outcome == StepOutcome::kValid);
  CHECK(result.figures.initiators_asked == 3);
  CHECK(result.figures.initiators_heard == 2);
  CHECK(result.figures.left_out == std::vector<std::string>{"b"});
  CHECK(result.figures.left_out_initiators == 1);
  CHECK(result.figures.restarts == 1);
  CHECK(result.figures.lost_agents.empty());
  CHECK(result.figures.fleet.kinds.at(0).completed == 4);  // two intervals, two initiators: none of attempt 0
  const bool told = std::any_of(result.facts.begin(), result.facts.end(), [](const auto& fact) {
    return fact.first == "b: lost in step 1 measure attempt 0" && fact.second.rfind("initiators 1;", 0) == 0;
  });
  CHECK(told);
  h.Detached("a");
  h.Detached("c");
  CHECK(h.machine().outcome() == "complete");
}

TEST_CASE("what a lost agent had delivered is its own row, and the others share its part of a fleet's rate") {
  Fleet h(3);
  h.Begin();
  h.ToRunning({"a", "b", "c"});
  CHECK(std::get<MeasureSpec>(h.Last<PrepareCommand>().spec.work).window_intervals == 2);
  CHECK(h.Last<PrepareCommand>().spec.initiators_sharing == 0);
  for (const char* id : {"a", "b", "c"}) {
    for (int64_t k = 0; k < 2; ++k) h.Interval(id, h.Measure(0), k, {static_cast<uint32_t>(id[0] - 'a')});
  }
  h.now = h.t0 + 2'500 * kMillisecond;
  h.Lost("b");
  h.Ended("a", h.Measure(0), 1, {0});
  h.Ended("c", h.Measure(0), 1, {2});
  h.At(h.now + h.Orphan());
  // Layout and names stay those of three initiators; what is split over those present is the rate.
  CHECK(h.Last<PrepareCommand>().spec.initiator_count == 3);
  CHECK(h.Last<PrepareCommand>().spec.initiators_sharing == 2);
  h.Run(1, {{"a", 0}, {"c", 2}});
  REQUIRE(h.results.size() == 1);
  REQUIRE(h.results[0].figures.lost.size() == 1);
  const LostFigures& lost = h.results[0].figures.lost[0];
  CHECK(lost.attempt == 0);
  CHECK(lost.intervals == 1);  // one of the window, after one of warm-up
  CHECK(lost.group.agent == "b");
  REQUIRE(!lost.group.kinds.empty());
  CHECK(lost.group.kinds[0].completed == 1);
  CHECK(lost.group.kinds[0].bytes == 4096);
  CHECK(lost.group.kinds[0].response.count() == 1);
  CHECK(h.results[0].figures.fleet.kinds.at(0).completed == 4);
}

TEST_CASE("the window begins anew twice at most, then the step has failed and the run goes on") {
  Fleet h(4);
  h.plan.steps.push_back(OneStep(1, 1));
  h.Begin();
  h.ToRunning({"a", "b", "c", "d"});
  std::vector<std::string> there = {"a", "b", "c", "d"};
  for (uint32_t attempt = 0; attempt < 3; ++attempt) {
    if (attempt > 0) {
      for (const std::string& id : there) h.Prepared(id, h.Measure(attempt));
      for (const std::string& id : there) h.Started(id, h.Measure(attempt));
    }
    h.now = h.t0 + kSecond / 2;
    h.Lost(there.back());
    there.pop_back();
    for (const std::string& id : there) h.Ended(id, h.Measure(attempt), 0, {static_cast<uint32_t>(id[0] - 'a')});
    if (attempt < 2) h.At(h.now + h.Orphan());
  }
  REQUIRE(h.results.size() == 1);
  CHECK((h.results[0].outcome == StepOutcome::kFailed || h.results[0].outcome == StepOutcome::kInvalid));
  CHECK_THAT(h.results[0].message, Catch::Contains("LEASE_ENDED"));
  // The third one lost may still load the target when the next step comes.
  CHECK(!h.Sent("a: prepare measure 1.0"));
  CHECK(h.machine().quiet_at() == h.now + h.Orphan());
  h.At(h.now + h.Orphan() - 1);
  CHECK(!h.Sent("a: prepare measure 1.0"));
  h.At(h.now + 1);
  CHECK(h.Sent("a: prepare measure 1.0"));
  h.Run(0, {{"a", 0}}, 1);
  REQUIRE(h.results.size() == 2);
  CHECK(h.results[1].outcome == StepOutcome::kValid);
  CHECK(h.results[1].figures.left_out.empty());
  h.Detached("a");
  CHECK(h.machine().outcome() == "complete");
  CHECK(h.machine().any_invalid());
}

TEST_CASE("one lost while the next step waits for an earlier one is left out of it, and nothing is undone") {
  Fleet h(3);
  h.plan.steps.push_back(OneStep(1, 3));
  h.Begin();
  h.ToRunning({"a", "b", "c"});
  for (const char* id : {"a", "b", "c"}) {
    for (int64_t k = 0; k < 3; ++k) h.Interval(id, h.Measure(0), k, {static_cast<uint32_t>(id[0] - 'a')});
  }
  h.Ended("a", h.Measure(0), 2, {0}, {}, /*overloaded=*/true);
  h.Lost("c");
  h.Ended("b", h.Measure(0), 2, {1});
  REQUIRE(h.results.size() == 1);
  const Nanos lost_at = h.now;
  CHECK(!h.Sent("a: prepare measure 1.0"));
  h.now += kSecond;
  h.Lost("b");
  const size_t sent = h.sent.size();
  h.At(lost_at + h.Orphan());
  CHECK(h.sent.size() == sent + 1);
  CHECK(h.Sent("a: prepare measure 1.0"));
  CHECK(h.Last<PrepareCommand>().spec.initiators.size() < 3);
}

TEST_CASE("agents lost together are one new window; one lost while it waits is left out too") {
  Fleet h(4);
  h.Begin();
  h.ToRunning({"a", "b", "c", "d"});
  h.now = h.t0 + kSecond / 2;
  h.Lost("b");
  h.Lost("c");
  h.Ended("a", h.Measure(0), 0, {0});
  h.Ended("d", h.Measure(0), 0, {3});
  h.now += kSecond;
  h.Lost("d");  // drained, and waiting
  h.At(h.now + 2 * h.Orphan());
  CHECK(h.Sent("a: prepare measure 0.1"));
  CHECK(!h.Sent("d: prepare measure 0.1"));
  h.Run(1, {{"a", 0}});
  REQUIRE(h.results.size() == 1);
  CHECK(h.results[0].figures.restarts == 1);
  CHECK(h.results[0].figures.left_out_initiators == 3);
  CHECK(h.results[0].outcome == StepOutcome::kValid);
}

TEST_CASE("before any load a loss costs no waiting, and the next step deals its initiators over those left") {
  Fleet h(2);
  h.plan.steps.push_back(OneStep(1, 2));
  h.Begin();
  h.Attached("a");
  h.Attached("b");
  h.Prepared("a", h.Measure(0));
  h.Lost("b");
  CHECK(h.Sent("a: stop now"));
  h.Ended("a", h.Measure(0), -1, {0});
  CHECK(h.Sent("a: prepare measure 0.1"));
  h.Run(1, {{"a", 0}});
  REQUIRE(h.results.size() == 1);
  CHECK(h.results[0].figures.restarts == 0);
  CHECK(h.results[0].figures.left_out == std::vector<std::string>{"b"});
  CHECK(h.Last<PrepareCommand>().spec.initiators == std::vector<uint32_t>{0, 1});
}

TEST_CASE("with nobody left the run is aborted, whatever the policy") {
  Fleet h(2);
  h.Begin();
  h.ToRunning({"a", "b"});
  h.now = h.t0 + kSecond / 2;
  h.Lost("a");
  h.Lost("b");
  h.At(h.now + 3 * h.Orphan());
  CHECK(h.machine().done());
  CHECK(h.machine().outcome() == "aborted");
}

TEST_CASE("when the last ones are lost while all wait for quiet, the step ends with what the window given up had") {
  for (const bool drained : {false, true}) {
    Fleet h(3);
    h.Begin();
    h.ToRunning({"a", "b", "c"});
    for (const char* id : {"a", "b", "c"}) {
      for (int64_t k = 0; k < 2; ++k) h.Interval(id, h.Measure(0), k, {static_cast<uint32_t>(id[0] - 'a')});
    }
    h.now = h.t0 + 2'500 * kMillisecond;
    h.Lost("b");
    if (drained) {
      h.Ended("a", h.Measure(0), 1, {0});
      h.Ended("c", h.Measure(0), 1, {2});
    }
    h.now += kSecond;
    h.Lost("a");
    h.now += kSecond;
    h.Lost("c");
    h.At(h.now + 3 * h.Orphan());
    CHECK(h.machine().done());
    CHECK(h.machine().outcome() == "aborted");
    REQUIRE(h.results.size() == 1);
    CHECK(h.results[0].outcome != StepOutcome::kValid);
    CHECK(h.results[0].figures.intervals <= 1);
  }
}

TEST_CASE("a guard that is lost hands its task to another agent of its host") {
  Fleet h(3, {"x", "x", "y"});
  h.plan.steps = {OneStep(0, 3, "f")};
  h.Begin();
  CHECK(h.sent == std::vector<std::string>{"a: attach 0 guard", "c: attach 0 guard"});
  h.Lost("a");
  CHECK(h.sent.back() == "b: attach 0 guard");
  h.Attached("b");
  h.Lost("c");  // the only one of its host
  CHECK(h.sent.back() == "b: prepare measure 0.0");
}

TEST_CASE("a lost agent's part of a fill is written by the others of its host, after it must have stopped") {
  Fleet h(3, {"x", "x", "y"});
  h.plan.steps[0].target = "f";
  h.plan.steps[0].fill_passes = 2;
  h.plan.steps[0].writes = true;
  h.plan.steps[0].fill.block = 4096;
  h.Begin();
  h.Attached("a");
  h.Attached("c");
  h.Attached("b");
  const PhaseKey fill = h.Key(PhaseKind::kFill);
  std::map<std::string, uint64_t> asked;
  std::map<std::string, std::vector<FillExtent>> extents;
  for (size_t i = 0, seen = 0; i < h.sent.size(); ++i) {
    if (h.sent[i].find("prepare fill 0.0") == std::string::npos) continue;
    size_t at = 0;
    for (const AgentCommand& command : h.commands) {
      const auto* prepare = std::get_if<PrepareCommand>(&command);
      if (prepare == nullptr || at++ != seen) continue;
      const std::string id = h.sent[i].substr(0, 1);
      extents[id] = std::get<FillSpec>(prepare->spec.work).extents;
      for (const FillExtent& extent : extents[id]) asked[id] += extent.length * 2;
    }
    ++seen;
  }
  REQUIRE(asked.size() == 3);
  CHECK(asked["a"] + asked["b"] == asked["c"]);  // each host has a set of its own
  const auto ended = [&](const std::string& id, const PhaseKey& key, uint64_t bytes) {
    PhaseEnded end;
    InitiatorTotals& out = end.totals.initiators.emplace_back();
    out.kinds[static_cast<size_t>(OpKind::kWrite)] = {.submitted = 1, .completed = 1, .bytes = bytes};
    h.Says(id, AgentReport{.key = key, .sequence = ++h.sequences[id], .body = std::move(end), .bytes = "x"});
  };
  for (const char* id : {"a", "b", "c"}) h.Prepared(id, fill);
  for (const char* id : {"a", "b", "c"}) h.Started(id, fill);
  h.now = h.t0 + kSecond;
  h.Lost("b");
  CHECK(!h.Sent("a: stop now"));  // what they have written stays written
  ended("a", fill, asked["a"]);
  ended("c", fill, asked["c"]);
  const PhaseKey again = h.Key(PhaseKind::kFill, 0, 1);
  CHECK(!h.Sent("a: prepare fill 0.1"));
  h.At(h.t0 + kSecond + h.Orphan());
  REQUIRE(h.Sent("a: prepare fill 0.1"));
  CHECK(!h.Sent("c: prepare fill 0.1"));
  const PrepareCommand again_command = h.Last<PrepareCommand>();
  const auto& rest = std::get<FillSpec>(again_command.spec.work).extents;
  REQUIRE(rest.size() == extents["b"].size());
  CHECK(rest[0].offset == extents["b"][0].offset);
  CHECK(rest[0].length == extents["b"][0].length);
  h.Prepared("a", again);
  h.Started("a", again);
  ended("a", again, asked["b"]);
  CHECK(h.Sent("a: prepare measure 0.0"));
  CHECK(!h.Sent("b: prepare measure 0.0"));
}

}  // namespace muster
