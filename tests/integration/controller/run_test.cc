#include "controller/store/run_store.h"
#include "tests/integration/controller/fixture.h"

namespace muster::test {
namespace {

uint64_t Ops(const StepResult& result) {
  return result.figures.fleet.kinds.at(0).completed;
}

TEST_CASE("a campaign of two steps on two agents is measured, stored and acknowledged") {
  Fixture f;
  f.Add();
  f.Add();
  f.plan.targets.push_back({.name = "files", .kind = FileTarget{.dir = "/nowhere"}});
  f.plan.steps = {NullStep(0, 3, 5), NullStep(1, 2, 3)};
  f.plan.steps[1].target = "files";
  f.plan.steps[1].fill_passes = 2;
  f.plan.steps[1].writes = true;
  const RunOutcome outcome = f.Run();
  INFO(FormatError(outcome.error));
  REQUIRE(outcome.outcome == "complete");
  CHECK_FALSE(outcome.any_invalid);
  REQUIRE(f.observer.results.size() == 2);
  for (const StepResult& result : f.observer.results) {
    INFO(result.message);
    CHECK(result.outcome == StepOutcome::kValid);
    CHECK(Ops(result) == uint64_t{result.step.initiators} * result.step.measure.window_intervals * ScriptedAgent::kOps);
    CHECK(result.figures.initiators.size() == result.step.initiators);
    CHECK(result.clock_error == 1000);
  }
  CHECK(f.observer.results[1].fill_bytes == 2 * (uint64_t{1} << 24));
  CHECK(f.observer.results[1].fill_time > 0);
  CHECK(f.observer.fill_progress > 0);
  CHECK_FALSE(f.observer.live.empty());
  CHECK(f.observer.phases == std::vector<std::string>{"step0 attach", "step0 measure", "step1 attach", "step1 fill",
                                                      "step1 measure", "step1 detach"});
  // One guard a host, the other agent after it; the null target has none.
  CHECK(f.agents[0]->heard() == std::vector<std::string>{"attach plain", "prepare measure", "start", "attach guard",
                                                         "prepare fill", "start", "prepare measure", "start",
                                                         "detach"});
  CHECK(f.agents[1]->heard()[3] == "attach plain");

  auto reader = RunReader::Open(outcome.path);
  REQUIRE(reader.ok());
  CHECK((*reader)->Summary()->outcome == "complete");
  CHECK((*reader)->Results()->size() == 2);
  CHECK((*reader)->Agents()->size() == 2);
  CHECK((*reader)->Intervals(0)->intervals.size() == 6);

  f.server->Shutdown();
  for (const auto& agent : f.agents) {
    CHECK(agent->WaitForGoodbye(kPatience));
    CHECK(agent->WaitForEnd(kPatience));
    CHECK(agent->acknowledged() == agent->sent());
  }
}

TEST_CASE("only agents that carry initiators take part in a measure phase, all attach and detach") {
  Fixture f;
  f.Add();
  f.Add();
  f.plan.steps = {NullStep(0, 1, 2)};
  REQUIRE(f.Run().outcome == "complete");
  CHECK(f.agents[1]->heard() == std::vector<std::string>{"attach plain", "detach"});
}

TEST_CASE("inspection asks every agent and writes nothing") {
  Fixture f;
  f.Add();
  f.Add();
  REQUIRE(f.server->WaitForAgents(2, kPatience, f.cancel).ok());
  const auto views = f.server->Inspect(f.plan, kPatience);
  REQUIRE(views.ok());
  REQUIRE(views->size() == 2);
  CHECK(views->at(0).agent == "agent-0");
  CHECK(views->at(1).target == "cal");
  CHECK(views->at(1).writable);
}

TEST_CASE("cancel keeps what was measured, twice ends at once") {
  Fixture f;
  f.Add();
  f.Add();
  f.plan.steps = {NullStep(0, 2, 600), NullStep(1, 2, 2)};  // a minute, if nobody stopped it
  const int level = GENERATE(1, 2);
  f.observer.on_live = [&] {
    if (f.observer.live.back().interval >= 3) f.cancel = level;
  };
  const RunOutcome outcome = f.Run();
  CHECK(outcome.outcome == "cancelled");
  CHECK(outcome.error.ok());
  REQUIRE(f.observer.results.size() == 2);
  const StepResult& cut = f.observer.results[0];
  CHECK(cut.outcome == StepOutcome::kCancelled);
  CHECK(cut.figures.sums_error.ok());
  CHECK(cut.figures.intervals >= 3);
  CHECK(cut.figures.intervals < 600);
  CHECK(Ops(cut) == uint64_t{2} * cut.figures.intervals * ScriptedAgent::kOps);
  CHECK(f.observer.results[1].outcome == StepOutcome::kSkipped);
  CHECK(f.agents[0]->heard().at(3) == (level == 1 ? "stop after" : "stop now"));
  CHECK(f.agents[0]->heard().back() == "detach");
}

TEST_CASE("totals that do not add up make the step INVALID, the run goes on") {
  Fixture f;
  f.Add();
  f.Add(Act::kLieInTotals);
  f.plan.steps = {NullStep(0, 2, 3), NullStep(1, 1, 2)};
  const RunOutcome outcome = f.Run();
  CHECK(outcome.outcome == "complete");
  CHECK(outcome.any_invalid);
  REQUIRE(f.observer.results.size() == 2);
  CHECK(f.observer.results[0].outcome == StepOutcome::kInvalid);
  CHECK(f.Code(f.observer.results[0].figures.sums_error) == "SUMS_MISMATCH");
  CHECK(f.observer.results[1].outcome == StepOutcome::kValid);  // the liar does not take part
}

TEST_CASE("a report that comes twice is rejected by name and counts once") {
  Fixture f;
  f.Add();
  f.Add(Act::kRepeatSequence);
  const RunOutcome outcome = f.Run();
  INFO(FormatError(outcome.error));
  CHECK(outcome.outcome == "complete");
  CHECK(f.observer.results[0].outcome == StepOutcome::kValid);
  REQUIRE_FALSE(f.observer.events.empty());
  CHECK_THAT(f.observer.events[0], Catch::Contains("agent-1") && Catch::Contains("rejected"));
}

}  // namespace
}  // namespace muster::test
