#include "controller/store/run_store.h"
#include "tests/integration/controller/fixture.h"

namespace muster::test {
namespace {

TEST_CASE("a hung agent never hangs a run, in whatever phase") {
  struct Case {
    Act act;
    const char* outcome;
    const char* code;
    StepOutcome step;
  };
  const Case c = GENERATE(Case{Act::kHangInAttach, "aborted", "ATTACH_TIMEOUT", StepOutcome::kFailed},
                          Case{Act::kHangInPrepare, "aborted", "PREPARE_TIMEOUT", StepOutcome::kFailed},
                          Case{Act::kHangInStart, "aborted", "START_TIMEOUT", StepOutcome::kFailed},
                          Case{Act::kHangInRun, "aborted", "AGENT_SILENT", StepOutcome::kInvalid},
                          Case{Act::kHangInDrain, "aborted", "DRAIN_TIMEOUT", StepOutcome::kInvalid},
                          Case{Act::kHangInDetach, "complete", "", StepOutcome::kValid});
  Fixture f;
  f.Hasten();
  f.Add();
  f.Add(c.act);
  f.plan.steps = {NullStep(0, 2, 40), NullStep(1, 2, 2)};
  if (c.act == Act::kHangInDetach) f.plan.steps = {NullStep(0, 2, 2)};
  const RunOutcome outcome = f.Run();
  INFO(c.code << ": " << FormatError(outcome.error));
  CHECK(outcome.outcome == c.outcome);
  REQUIRE_FALSE(f.observer.results.empty());
  const StepResult& result = f.observer.results[0];
  if (c.act == Act::kHangInRun) {
    // One interval was whole; the window begins after it.
    CHECK((result.outcome == StepOutcome::kFailed || result.outcome == StepOutcome::kInvalid));
  } else {
    CHECK(result.outcome == c.step);
  }
  if (*c.code != '\0') {
    CHECK(f.Code(outcome.error) == c.code);
    CHECK(GetErrorInfo(outcome.error).place == "agent agent-1");
    CHECK(f.observer.results[1].outcome == StepOutcome::kSkipped);
    CHECK(f.agents[1]->WaitForEnd(kPatience));  // it was given up: its lease ends
  }
  CHECK(f.agents[0]->heard().back() == "detach");
}

TEST_CASE("an agent that vanishes in a step ends the run when its lease does, what was measured is kept") {
  Fixture f(/*lease=*/2 * kSecond);
  f.Add();
  f.Add(Act::kVanishInRun);
  f.plan.steps = {NullStep(0, 2, 600), NullStep(1, 2, 2)};
  f.plan.steps[0].measure.warmup_intervals = 0;
  const RunOutcome outcome = f.Run();
  CHECK(outcome.outcome == "aborted");
  CHECK(f.Code(outcome.error) == "LEASE_ENDED");
  CHECK(GetErrorInfo(outcome.error).place == "agent agent-1");
  const StepResult& cut = f.observer.results.at(0);
  CHECK(cut.outcome == StepOutcome::kInvalid);
  CHECK(cut.figures.intervals == 1);
  CHECK(cut.figures.lost_agents == std::vector<std::string>{"agent-1"});
  CHECK(cut.figures.fleet.kinds.at(0).completed == 2 * ScriptedAgent::kOps);
  CHECK(f.observer.results.at(1).outcome == StepOutcome::kSkipped);
  CHECK(f.agents[0]->heard().back() == "detach");
  auto reader = RunReader::Open(outcome.path);
  REQUIRE(reader.ok());
  CHECK((*reader)->Summary()->outcome == "aborted");
  CHECK((*reader)->Results()->size() == 2);
}

TEST_CASE("an agent without Beats is lost when its lease ends") {
  Fixture f(/*lease=*/2 * kSecond);
  f.agents.push_back(std::make_unique<ScriptedAgent>(f.socket, ScriptedAgent::Options{.id = "mute", .beats = false}));
  REQUIRE_FALSE(f.agents.back()->Connect().has_error());
  f.plan.steps = {NullStep(0, 1, 600)};
  const RunOutcome outcome = f.Run();
  CHECK(outcome.outcome == "aborted");
  CHECK(f.Code(outcome.error) == "LEASE_ENDED");
}

TEST_CASE("an agent of another API version is refused with both ranges and builds") {
  Fixture f;
  ScriptedAgent agent(f.socket, {.id = "next", .api_min = 7, .api_max = 9, .build = "agent-build"});
  const v1::HelloReply reply = agent.Connect();
  CHECK(reply.error().code() == "API_VERSION");
  for (const char* part : {"7..9", "3..3", "agent-build", "controller-build"}) {
    CHECK_THAT(reply.error().message(), Catch::Contains(part));
  }
  const absl::Status missing = f.server->WaitForAgents(1, 10 * kMillisecond, f.cancel);
  CHECK(f.Code(missing) == "AGENTS_MISSING");
  CHECK_THAT(FormatError(missing), Catch::Contains("7..9") && Catch::Contains("next"));
}

TEST_CASE("the same agent id from a second process is refused with both hosts") {
  Fixture f;
  f.Add();
  ScriptedAgent second(f.socket, {.id = "agent-0", .hostname = "host-b"});
  const v1::HelloReply reply = second.Connect();
  CHECK(reply.error().code() == "AGENT_ID_TAKEN");
  CHECK_THAT(reply.error().message(), Catch::Contains("host-a") && Catch::Contains("host-b"));
  // The first one is untouched.
  CHECK(f.server->WaitForAgents(1, kPatience, f.cancel).ok());
}

TEST_CASE("reports out of order and damaged reports are refused by name") {
  struct Case {
    Act act;
    const char* code;
  };
  const Case c =
      GENERATE(Case{Act::kSkipSequence, "REPORT_OUT_OF_ORDER"}, Case{Act::kCorruptHistogram, "HISTOGRAM_CORRUPT"});
  Fixture f;
  f.Add();
  ScriptedAgent& bad = f.Add(c.act);
  f.plan.steps = {NullStep(0, 2, 600)};
  const RunOutcome outcome = f.Run();
  CHECK(outcome.outcome == "aborted");
  CHECK(f.Code(outcome.error) == c.code);
  CHECK_THAT(GetErrorInfo(outcome.error).place, Catch::Contains("agent-1"));
  CHECK(bad.WaitForEnd(kPatience));
  CHECK(bad.refused().code() == c.code);
  CHECK(bad.acknowledged() < bad.sent());
}

TEST_CASE("a message that breaks the protocol ends the link with a typed error") {
  const Act act = GENERATE(Act::kMalformedMessage, Act::kSecondHello);
  Fixture f;
  ScriptedAgent& agent = f.Add(act);
  CHECK(agent.WaitForEnd(kPatience));
  CHECK_FALSE(f.server->WaitForAgents(1, 10 * kMillisecond, f.cancel).ok());
}

TEST_CASE("errors of an agent fail the step with that error and end the run") {
  struct Case {
    Act act;
    const char* code;
  };
  const Case c = GENERATE(Case{Act::kPrepareFails, "BUFFER_MEMORY"}, Case{Act::kFillFails, "WRITE_FAILED"});
  Fixture f;
  f.Add();
  f.Add(c.act);
  f.plan.targets = {{.name = "cal", .kind = FileTarget{.dir = "/nowhere"}}};
  f.plan.steps = {NullStep(0, 2, 3), NullStep(1, 2, 3)};
  f.plan.steps[0].fill_passes = 1;
  const RunOutcome outcome = f.Run();
  CHECK(outcome.outcome == "failed");
  CHECK(f.Code(outcome.error) == c.code);
  CHECK(f.observer.results.at(0).outcome == StepOutcome::kFailed);
  CHECK(f.observer.results.at(1).outcome == StepOutcome::kSkipped);
  for (const auto& agent : f.agents) CHECK(agent->heard().back() == "detach");
}

}  // namespace
}  // namespace muster::test
