#pragma once
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "controller/run/run_machine.h"

namespace muster {

inline muster::Step OneStep(uint32_t index, uint32_t initiators, const std::string& target = "t") {
  muster::Step step;
  step.index = index;
  step.name = "s" + std::to_string(index);
  step.target = target;
  step.initiators = step.initiators_max = initiators;
  step.objects = {{.slot = 0, .name = "data", .size = 1 << 22}};
  step.measure.warmup_intervals = 1;
  step.measure.window_intervals = 2;
  return step;
}

inline absl::Status Oops(const char* code) {
  return MakeError(absl::StatusCode::kInternal, {.code = code, .place = {}, .message = "it broke", .next = {}});
}

// Drives a RunMachine by hand on a clock by hand; store operations succeed at once unless `store` is false.
class Harness {
 public:
  Plan plan;
  Nanos now = 100 * kSecond;
  bool store = true;
  std::vector<std::string> sent;  // "a: prepare 0.0"
  std::vector<std::string> told, did;
  std::vector<StepResult> results;
  std::vector<LiveFigures> live;
  std::vector<AgentCommand> commands;
  Nanos t0 = 0;

  explicit Harness(int agents, std::vector<std::string> hosts = {}) {
    plan.targets = {{.name = "t", .kind = NullTarget{}}, {.name = "f", .kind = FileTarget{.dir = "/d"}}};
    plan.op_timeout = 10 * kSecond;
    for (int i = 0; i < agents; ++i) {
      agents_.push_back({.id = std::string(1, static_cast<char>('a' + i)),
                         .host_id = hosts.empty() ? "h" : hosts[static_cast<size_t>(i)],
                         .hostname = "nas1"});
    }
  }
  // Reports of runs before this one.
  void HasSent(const std::string& agent, uint64_t reports) {
    for (FleetAgent& a : agents_) {
      if (a.id == agent) a.last_sequence = sequences[agent] = reports;
    }
  }
  void Begin() {
    RunMachineOptions options;
    options.run_id = "r";
    options.target_places = {{"t", "lab.yaml:4:3"}};
    options.judge = [](const StepFigures&, Nanos) { return std::vector<Check>{}; };
    machine_ = std::make_unique<RunMachine>(plan, options, agents_);
    Feed(Tick{});
  }
  RunMachine& machine() { return *machine_; }

  void Feed(const RunEvent& event) {
    for (RunAction& action : machine_->Step(event, now)) Do(action);
    // Answers of the store come after all actions of one step, as in the driver.
    while (!answers_.empty()) {
      const RunEvent answer = answers_.front();
      answers_.pop_front();
      for (RunAction& action : machine_->Step(answer, now)) Do(action);
    }
  }
  void Says(const std::string& agent, AgentSays says) { Feed(AgentEvent{agent, std::move(says), nullptr}); }
  void At(Nanos when) {
    now = when;
    Feed(Tick{});
  }
  PhaseKey Key(PhaseKind phase, uint32_t step = 0, uint32_t attempt = 0) const { return {"r", step, phase, attempt}; }
  void Attached(const std::string& agent, uint32_t step = 0, uint64_t generation = 0) {
    Says(agent, AttachDone{.key = Key(PhaseKind::kAttach, step), .target = "t", .generation = generation});
  }
  void Detached(const std::string& agent) { Says(agent, DetachDone{Key(PhaseKind::kDetach), {}}); }
  void Prepared(const std::string& agent, const PhaseKey& key) { Says(agent, PrepareDone{.key = key}); }
  void Started(const std::string& agent, const PhaseKey& key, bool missed = false) {
    Says(agent, StartDone{.key = key, .missed = missed, .local_t0 = t0});
  }
  void Interval(const std::string& agent, const PhaseKey& key, int64_t k, const std::vector<uint32_t>& initiators) {
    IntervalDelta delta{.interval = k, .length = plan.interval};
    for (const uint32_t initiator : initiators) {
      InitiatorDelta& out = delta.initiators.emplace_back();
      out.initiator = initiator;
      Histogram one;
      one.Record(1000);
      out.kinds.push_back({.completed = 1, .bytes = 4096, .response = one.Encode()});
    }
    Says(agent, AgentReport{.key = key, .sequence = ++sequences[agent], .body = std::move(delta), .bytes = "x"});
  }
  void Ended(const std::string& agent, const PhaseKey& key, int64_t last, const std::vector<uint32_t>& initiators,
             absl::Status status = {}, bool overloaded = false) {
    PhaseEnded ended{.status = std::move(status)};
    ended.totals.last_interval = last;
    ended.totals.overloaded = overloaded;
    for (const uint32_t initiator : initiators) {
      const auto ops = static_cast<uint64_t>(last + 1);
      InitiatorTotals& out = ended.totals.initiators.emplace_back();
      out.initiator = initiator;
      out.kinds[0] = {.submitted = ops, .completed = ops, .bytes = ops * 4096};
    }
    Says(agent, AgentReport{.key = key, .sequence = ++sequences[agent], .body = std::move(ended), .bytes = "x"});
  }
  // From attached to running, for measure phases of agents that carry one initiator each.
  void ToRunning(const std::vector<std::string>& ids) {
    for (const std::string& id : ids) Attached(id);
    for (const std::string& id : ids) Prepared(id, Key(PhaseKind::kMeasure));
    for (const std::string& id : ids) Started(id, Key(PhaseKind::kMeasure));
  }
  template <typename Command>
  Command Last() const {
    for (auto at = commands.rbegin(); at != commands.rend(); ++at) {
      if (const auto* command = std::get_if<Command>(&*at)) return *command;
    }
    FAIL("no such command was sent");
    return {};
  }
  std::string Code() const { return GetErrorInfo(machine_->error()).code; }

  std::map<std::string, uint64_t> sequences;

 private:
  void Do(const RunAction& action);
  std::vector<FleetAgent> agents_;
  std::unique_ptr<RunMachine> machine_;
  std::deque<RunEvent> answers_;
};

}  // namespace muster
