#pragma once
#include <optional>

#include "controller/run/run_context.h"

namespace muster {

// Why a phase ended otherwise than by its plan; a later cause replaces an earlier one of less weight.
enum class EndCause : uint8_t { kNone, kOverload, kCancel, kLoss, kError, kStore };

// One phase of a step (or the detach at the end of a run): a state machine with a deadline in every state.
class Phase {
 public:
  virtual ~Phase() = default;
  virtual void Begin(RunContext& ctx) = 0;
  virtual void OnMessage(RunContext& ctx, FleetAgent& agent, const AgentSays& says) = 0;
  // A report in sequence. Not OK: it cannot be used; it is refused and the agent given up.
  virtual absl::Status OnReport(RunContext& ctx, FleetAgent& agent, const AgentReport& report) = 0;
  // The same of an agent that is lost: merged if it still can be. Not OK: it is dropped, and all that follow.
  virtual absl::Status OnLateReport(RunContext&, FleetAgent&, const AgentReport&) {
    return absl::FailedPreconditionError("there is nothing that it could be merged into");
  }
  // The agent has been marked lost already.
  virtual void OnLost(RunContext& ctx, FleetAgent& agent) = 0;
  virtual void OnCancel(RunContext& ctx, int level) = 0;
  virtual void OnStoreFailed(RunContext& ctx) = 0;
  // Called after every event and when Deadline() has come: acts on what is due by `ctx.now`.
  virtual void OnTime(RunContext& ctx) = 0;
  virtual Nanos Deadline(const RunContext& ctx) const = 0;  // never kNever while not done

  bool done() const { return done_; }
  EndCause cause() const { return cause_; }
  const absl::Status& status() const { return status_; }  // with cause kLoss, kError, kStore

 protected:
  void Blame(EndCause cause, absl::Status status) {
    if (cause <= cause_) return;
    cause_ = cause;
    status_ = std::move(status);
  }
  bool done_ = false;

 private:
  EndCause cause_ = EndCause::kNone;
  absl::Status status_;
};

}  // namespace muster
