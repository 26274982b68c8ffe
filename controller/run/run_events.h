#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "controller/aggregate/figures.h"
#include "controller/fleet/agent_messages.h"
#include "controller/run/run_control.h"
#include "controller/store/run_store.h"

// What the run state machine is told and what it wants done. Plain data; the driver and the simulation carry it out.
namespace muster {

// ---- Events

struct ReportsCommitted {
  std::string agent;
  uint64_t sequence = 0;  // every report up to it
};
struct SpaceChecked {
  absl::Status status;
};
struct StepSealed {
  uint32_t step = 0;
};
// The store can keep nothing further; said once.
struct StoreFailed {
  absl::Status status;
};
struct StoreFinished {};
// 1: stop after the current interval and keep what was measured; 2: stop at once.
struct CancelAsked {
  int level = 1;
};
// Whether live figures are to have detail; until told they have none.
struct DetailAsked {
  bool wanted = false;
};
// Time has passed; nothing else.
struct Tick {};

using RunEvent = std::variant<AgentEvent, ReportsCommitted, SpaceChecked, StepSealed, StoreFailed, StoreFinished,
                              CancelAsked, DetailAsked, Tick>;

// ---- Actions, to be carried out in order

struct SendAction {
  std::string agent;
  AgentCommand command;
};
struct AcknowledgeAction {
  std::string agent;
  uint64_t sequence = 0;
};
struct RefuseReportsAction {
  std::string agent;
  absl::Status why;
};
struct DropAction {
  std::string agent;
  absl::Status why;
};

// For the store thread, answered by events: ReportsCommitted, SpaceChecked, StepSealed, StoreFinished, StoreFailed.
struct CheckSpaceAction {
  uint32_t step = 0;
};
struct CommitReportAction {
  RawReport report;
};
struct WriteIntervalAction {
  PhaseKey key;
  FleetInterval interval;
};
struct SealStepAction {
  PhaseKey key;
  std::shared_ptr<const StepResult> result;
};
struct SealPhaseAction {
  PhaseKey key;
};
struct FinishAction {
  std::string outcome, message;
};

// For the observer; a Tell also goes to the store.
struct PhaseBegunAction {
  uint32_t step = 0;
  PhaseKind phase = PhaseKind::kAttach;
  Nanos expected = 0;
};
struct FillProgressAction {
  FillProgress progress;
};
struct LiveAction {
  uint32_t step = 0;
  LiveFigures live;
};
struct StepResultAction {
  std::shared_ptr<const StepResult> result;
};
struct TellAction {
  std::string text;
};

using RunAction = std::variant<SendAction, AcknowledgeAction, RefuseReportsAction, DropAction, CheckSpaceAction,
                               CommitReportAction, WriteIntervalAction, SealStepAction, SealPhaseAction, FinishAction,
                               PhaseBegunAction, FillProgressAction, LiveAction, StepResultAction, TellAction>;

// The verdict on a step's figures (controller/verdict), injected: the machine judges nothing itself.
using Judge = std::function<std::vector<Check>(const StepFigures& figures, Nanos op_timeout)>;

struct RunMachineOptions {
  std::string run_id;
  RunDeadlines deadlines;
  Nanos lease = 10 * kSecond;
  Judge judge;
  std::map<std::string, std::string> target_places;  // as RunOptions
  Nanos min_lead = 500 * kMillisecond;               // start instant = now + max(this, 4 x worst round trip)
  Nanos live_period = 200 * kMillisecond;
  uint32_t max_repeats = 3;  // of a barrier whose start was missed
};

}  // namespace muster
