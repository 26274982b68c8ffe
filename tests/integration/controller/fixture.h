#pragma once
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "controller/service/controller_server.h"
#include "tests/integration/controller/scripted_agent.h"
#include "tests/support/loop_fs.h"

namespace muster::test {

// Bound of every wait: far beyond what a loaded machine needs, so it only ends a broken test.
inline constexpr Nanos kPatience = 60 * kSecond;

class RecordingObserver final : public RunObserver {
 public:
  void OnRunStarted(const std::string& run_id, const std::string& path) override { started = run_id + " " + path; }
  void OnPhase(const Step& step, PhaseKind phase, Nanos) override {
    phases.push_back(step.name + " " + std::string(PhaseKindName(phase)));
  }
  void OnFillProgress(const FillProgress&) override { ++fill_progress; }
  void OnLive(const Step&, const LiveFigures& figures) override {
    live.push_back(figures);
    if (on_live) on_live();
  }
  void OnStepResult(const StepResult& result) override { results.push_back(result); }
  void OnEvent(const std::string& text) override { events.push_back(text); }

  std::string started;
  std::vector<std::string> phases, events;
  std::vector<LiveFigures> live;
  std::vector<StepResult> results;
  int fill_progress = 0;
  std::function<void()> on_live;
};

inline Step NullStep(uint32_t index, uint32_t initiators, uint32_t window) {
  Step step;
  step.index = index;
  step.name = "step" + std::to_string(index);
  step.campaign_step = step.name;
  step.target = "cal";
  step.initiators = step.initiators_max = initiators;
  step.objects = {{.slot = 0, .name = "", .size = 1 << 24}};
  step.measure.workload.size = 1 << 24;
  step.measure.warmup_intervals = 1;
  step.measure.window_intervals = window;
  return step;
}

// A controller on a socket of its own, and what a run needs.
struct Fixture {
  TempDir dir{"muster-ctl"};
  std::string socket = dir.path() + "/s/control.sock";
  std::string runs = dir.path() + "/runs";
  std::unique_ptr<ControllerServer> server;
  std::vector<std::unique_ptr<ScriptedAgent>> agents;
  RecordingObserver observer;
  std::atomic<int> cancel{0};
  Plan plan;
  RunOptions options;

  explicit Fixture(Nanos lease = 10 * kSecond) {
    auto listening =
        ControllerServer::Listen({.listen = {.socket_path = socket}, .lease = lease, .build = "controller-build"});
    INFO(FormatError(listening.status()));
    REQUIRE(listening.ok());
    server = std::move(*listening);
    plan.name = "test";
    plan.interval = 100 * kMillisecond;
    plan.op_timeout = 5 * kSecond;
    plan.targets = {{.name = "cal", .kind = NullTarget{}}};
    plan.steps = {NullStep(0, 2, 5)};
    options.runs_dir = runs;
    options.header = {.id = "20260101-000000-test-0001",
                      .campaign_name = "test",
                      .campaign_text = "name: test\n",
                      .build = "controller-build",
                      .started_wall_micros = 1};
  }

  // Deadlines that end a hung agent soon; only for tests that wait for them.
  void Hasten() {
    plan.op_timeout = kSecond;
    options.deadlines = {.attach = 2 * kSecond,
                         .prepared_to_start = 2 * kSecond,
                         .detach = kSecond,
                         .no_progress_slack = 500 * kMillisecond,
                         .silent_grace = 500 * kMillisecond,
                         .answer_slack = 500 * kMillisecond,
                         .end_slack = kSecond};
  }

  ScriptedAgent& Add(Act act = Act::kNothing) {
    const std::string id = "agent-" + std::to_string(agents.size());
    agents.push_back(std::make_unique<ScriptedAgent>(socket, ScriptedAgent::Options{.id = id, .act = act}));
    const v1::HelloReply reply = agents.back()->Connect();
    INFO(reply.ShortDebugString());
    REQUIRE(!reply.has_error());
    return *agents.back();
  }

  RunOutcome Run() {
    const absl::Status there = server->WaitForAgents(static_cast<uint32_t>(agents.size()), kPatience, cancel);
    INFO(FormatError(there));
    REQUIRE(there.ok());
    const Nanos began = SteadyClock::Get().Now();
    RunOutcome outcome = server->Run(plan, options, observer, cancel);
    CHECK(SteadyClock::Get().Now() - began < kPatience);
    CHECK(observer.results.size() == plan.steps.size());
    return outcome;
  }

  std::string Code(const absl::Status& status) const { return GetErrorInfo(status).code; }
};

}  // namespace muster::test
