#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "controller/run/fill_phase.h"
#include "controller/run/measure_phase.h"
#include "controller/run/phase.h"

namespace muster {

// One run, as a pure state machine: events in, actions out, time given from outside. The driver feeds it in a process,
// the simulation on a fake clock. Not thread-safe; never blocks; no gRPC, no protobuf. The plan must outlive it.
//
//   for each step: space -> [attach] -> [fill] -> measure -> sealing
//   then:          detach -> steps not run are sealed as SKIPPED -> finish -> done
//
// Whatever happens, every step gets an outcome, detach is tried, and `done` comes within the deadlines.
class RunMachine {
 public:
  RunMachine(const Plan& plan, RunMachineOptions options, std::vector<FleetAgent> agents);
  ~RunMachine();

  // Takes one event at `now`, which never steps back. The actions are to be carried out in order.
  std::vector<RunAction> Step(const RunEvent& event, Nanos now);
  // When to send a Tick at the latest. kNever once done.
  Nanos Deadline() const;

  bool done() const { return state_ == State::kDone; }
  // complete, cancelled, failed, aborted; final once the last step is sealed.
  const std::string& outcome() const { return outcome_; }
  const absl::Status& error() const { return error_; }
  bool any_invalid() const { return any_invalid_; }
  // Agents that were lost have stopped loading the targets by then; in the past when there were none.
  Nanos quiet_at() const { return ctx_.quiet_at; }

 private:
  enum class State : uint8_t { kNew, kSpace, kAttach, kFill, kMeasure, kSealing, kDetach, kFinishing, kDone };

  void OnAgent(const AgentEvent& event);
  void OnReport(FleetAgent& agent, const AgentReport& report);
  void OnLateReport(FleetAgent& agent, const AgentReport& report);
  void Keep(FleetAgent& agent, const AgentReport& report);
  void Dropped(FleetAgent& agent, uint64_t sequence);
  void NoteLinks();
  void OnLost(FleetAgent& agent);
  void OnCommitted(const ReportsCommitted& committed);
  void OnStoreFailed(const absl::Status& why);
  void OnTime();
  void Advance();

  void NextStep();   // the next of the plan, or detach when there is none or the run ends here
  void BeginStep();  // space was there
  void BeginFill();
  void BeginMeasure();
  void Enter(State state, PhaseKind kind, std::unique_ptr<Phase> phase, Nanos expected);
  void PhaseOver();
  void StepOver(StepOutcome outcome, std::string message);
  void SealMeasured();
  void Seal(StepResult result);
  void Sealed();
  void EndRun(std::string outcome, absl::Status error);  // the first one stands
  void BeginDetach();
  void SkipRest();
  void Finish();

  const muster::Step& step() const { return ctx_.plan.steps[index_]; }
  bool ending() const { return !outcome_.empty(); }

  RunContext ctx_;
  State state_ = State::kNew;
  size_t index_ = 0;        // step at hand
  size_t attach_step_ = 0;  // last step that attached, names the detach
  std::unique_ptr<Phase> phase_;
  MeasurePhase* measure_ = nullptr;  // phase_, while measuring
  FillPhase* fill_ = nullptr;        // phase_, while filling
  std::set<std::string> attached_;
  std::map<std::string, LinkTotals> links_before_;  // of all agents, when the measure phase began
  StepResult result_;                               // of the step at hand
  std::shared_ptr<const StepResult> sealing_;
  bool detached_ = false;
  bool next_ = false;   // a step was sealed: go on with the next
  Nanos deadline_ = 0;  // of space, sealing and finishing
  int cancel_ = 0;
  std::string outcome_;
  absl::Status error_;
  bool any_invalid_ = false;
};

}  // namespace muster
