#include "controller/run/run_machine.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/status.h"
#include "common/base/units.h"
#include "controller/run/attach_phase.h"
#include "controller/run/detach_phase.h"

namespace muster {
namespace {

absl::Status StoreStalled(Nanos limit) {
  return MakeError(absl::StatusCode::kDeadlineExceeded,
                   {.code = "STORE_STALLED",
                    .place = "run file",
                    .message = "the store did not answer within " + FormatDuration(limit),
                    .next = "The disk below the runs directory hangs."});
}

}  // namespace

RunMachine::RunMachine(const Plan& plan, RunMachineOptions options, std::vector<FleetAgent> agents)
    : ctx_(plan, std::move(options), std::move(agents)) {}

RunMachine::~RunMachine() = default;

std::vector<RunAction> RunMachine::Step(const RunEvent& event, Nanos now) {
  ctx_.now = std::max(ctx_.now, now);
  ctx_.actions.clear();
  if (state_ == State::kNew) {
    state_ = State::kSpace;
    NextStep();
  }
  if (const auto* agent = std::get_if<AgentEvent>(&event)) {
    OnAgent(*agent);
  } else if (const auto* committed = std::get_if<ReportsCommitted>(&event)) {
    OnCommitted(*committed);
  } else if (const auto* space = std::get_if<SpaceChecked>(&event)) {
    if (state_ == State::kSpace) {
      if (space->status.ok()) {
        BeginStep();
      } else {
        EndRun("failed", space->status);
        StepOver(StepOutcome::kFailed, FormatError(space->status));
      }
    }
  } else if (const auto* sealed = std::get_if<StepSealed>(&event)) {
    if (state_ == State::kSealing && sealed->step == sealing_->step.index) Sealed();
  } else if (const auto* failed = std::get_if<StoreFailed>(&event)) {
    OnStoreFailed(failed->status);
  } else if (std::holds_alternative<StoreFinished>(event)) {
    if (state_ == State::kFinishing) state_ = State::kDone;
  } else if (const auto* cancel = std::get_if<CancelAsked>(&event)) {
    if (cancel->level > cancel_) {
      cancel_ = cancel->level;
      if (phase_ && !phase_->done()) phase_->OnCancel(ctx_, cancel_);
    }
  } else if (const auto* detail = std::get_if<DetailAsked>(&event)) {
    ctx_.live_detail = detail->wanted;
  }
  OnTime();
  Advance();
  return std::move(ctx_.actions);
}

Nanos RunMachine::Deadline() const {
  if (state_ == State::kDone) return kNever;
  Nanos at = phase_ ? phase_->Deadline(ctx_) : deadline_;
  if (ctx_.store_ok() && ctx_.store_waiting_since != kNever) {
    at = std::min(at, ctx_.store_waiting_since + ctx_.options.deadlines.store);
  }
  return at;
}

void RunMachine::OnAgent(const AgentEvent& event) {
  FleetAgent* agent = ctx_.Find(event.agent);
  if (agent == nullptr) return;
  if (!agent->live) {
    // Nobody joins a run, and a lost agent does not come back into it; what it had measured is taken all the same.
    if (const auto* report = std::get_if<AgentReport>(&event.says)) OnLateReport(*agent, *report);
    if (const auto* back = std::get_if<AgentReturned>(&event.says)) {
      ctx_.Complain(fmt::format("agent {}: there again, no longer part of the run; {} reports are taken over",
                                agent->id, back->reports));
    }
    return;
  }
  if (const auto* down = std::get_if<LinkDown>(&event.says)) {
    agent->down_since = ctx_.now;
    ctx_.Complain(fmt::format("agent {}: link down: {}", agent->id, FormatError(down->why)));
  } else if (const auto* back = std::get_if<LinkBack>(&event.says)) {
    ++agent->reconnects;
    agent->down += back->down;
    agent->down_since = kNever;
    ctx_.Complain(fmt::format("agent {}: back after {}, {} reports resumed", agent->id,
                              FormatLatency(static_cast<double>(back->down)), back->reports));
  } else if (const auto* gone = std::get_if<AgentGone>(&event.says)) {
    ctx_.Lose(*agent, gone->why, /*drop=*/false);
    OnLost(*agent);
  } else if (const auto* clock = std::get_if<ClockNews>(&event.says)) {
    agent->clock = clock->reading;
  } else if (const auto* report = std::get_if<AgentReport>(&event.says)) {
    OnReport(*agent, *report);
  } else if (phase_ && !phase_->done()) {
    phase_->OnMessage(ctx_, *agent, event.says);
  }
}

void RunMachine::OnLost(FleetAgent& agent) {
  if (phase_ && !phase_->done()) phase_->OnLost(ctx_, agent);
}

void RunMachine::OnStoreFailed(const absl::Status& why) {
  if (!ctx_.store_ok()) return;
  ctx_.store_error = why;
  ctx_.Tell("store failed: " + FormatError(why));
  // What a run ended with before weighs less than a result that cannot be kept.
  if (outcome_ == "complete" || outcome_ == "cancelled") outcome_.clear();
  EndRun("failed", why);
  if (phase_ && !phase_->done()) {
    phase_->OnStoreFailed(ctx_);
  } else if (state_ == State::kSpace) {
    StepOver(StepOutcome::kFailed, FormatError(why));
  } else if (state_ == State::kSealing) {
    Sealed();
  } else if (state_ == State::kFinishing) {
    state_ = State::kDone;
  }
}

void RunMachine::OnTime() {
  if (ctx_.store_ok() && ctx_.store_waiting_since != kNever &&
      ctx_.now >= ctx_.store_waiting_since + ctx_.options.deadlines.store) {
    OnStoreFailed(StoreStalled(ctx_.options.deadlines.store));
  }
  if (phase_ && !phase_->done()) phase_->OnTime(ctx_);
  const bool waits = state_ == State::kSpace || state_ == State::kSealing || state_ == State::kFinishing;
  if (!waits || ctx_.now < deadline_) return;
  if (ctx_.store_ok()) {
    OnStoreFailed(StoreStalled(ctx_.options.deadlines.store));
  } else if (state_ == State::kFinishing) {
    state_ = State::kDone;  // it could not even be closed
  }
}

void RunMachine::Advance() {
  // Each pass ends a phase or begins a step; there are finitely many of both.
  for (;;) {
    if (phase_ && phase_->done()) {
      PhaseOver();
    } else if (next_) {
      next_ = false;
      detached_ ? SkipRest() : NextStep();
    } else {
      return;
    }
  }
}

void RunMachine::NextStep() {
  if (ending() || index_ >= ctx_.plan.steps.size()) {
    BeginDetach();
    return;
  }
  if (cancel_ > 0) {
    EndRun("cancelled", absl::OkStatus());
  } else if (!ctx_.first_loss.ok() && !ctx_.GoesOn()) {
    EndRun("aborted", ctx_.first_loss);
  }
  if (ending()) {
    BeginDetach();
    return;
  }
  result_ = {};
  result_.step = step();
  if (!step().skip_reason.empty()) {
    StepOver(StepOutcome::kSkipped, step().skip_reason);
    return;
  }
  state_ = State::kSpace;
  deadline_ = ctx_.now + ctx_.options.deadlines.store;
  ctx_.actions.emplace_back(CheckSpaceAction{step().index});
}

void RunMachine::Enter(State state, PhaseKind kind, std::unique_ptr<Phase> phase, Nanos expected) {
  state_ = state;
  phase_ = std::move(phase);
  const size_t named = std::min(index_, ctx_.plan.steps.empty() ? 0 : ctx_.plan.steps.size() - 1);
  if (!ctx_.plan.steps.empty()) {
    ctx_.actions.emplace_back(PhaseBegunAction{ctx_.plan.steps[named].index, kind, expected});
  }
  phase_->Begin(ctx_);
}

void RunMachine::BeginStep() {
  if (cancel_ > 0) {
    StepOver(StepOutcome::kCancelled, "cancelled before it began");
  } else if (!ctx_.first_loss.ok() && !ctx_.GoesOn()) {
    EndRun("aborted", ctx_.first_loss);
    StepOver(StepOutcome::kFailed, FormatError(ctx_.first_loss));
  } else if (attached_.insert(step().target).second) {
    attach_step_ = index_;
    Enter(State::kAttach, PhaseKind::kAttach, std::make_unique<AttachPhase>(step(), result_.facts), 0);
  } else {
    BeginFill();
  }
}

void RunMachine::BeginFill() {
  if (step().fill_passes == 0) {
    BeginMeasure();
    return;
  }
  auto fill = std::make_unique<FillPhase>(step(), result_.facts);
  fill_ = fill.get();
  const Nanos measured =
      (Nanos{step().measure.warmup_intervals} + step().measure.window_intervals) * ctx_.plan.interval;
  Enter(State::kFill, PhaseKind::kFill, std::move(fill), std::max<Nanos>(0, step().estimated - measured));
}

void RunMachine::BeginMeasure() {
  for (const FleetAgent& agent : ctx_.agents) {
    links_before_[agent.id] = {.agent = agent.id, .reconnects = agent.reconnects, .down = agent.down};
  }
  auto measure = std::make_unique<MeasurePhase>(step(), result_.facts);
  measure_ = measure.get();
  Enter(State::kMeasure, PhaseKind::kMeasure, std::move(measure),
        (Nanos{step().measure.warmup_intervals} + step().measure.window_intervals) * ctx_.plan.interval);
}

void RunMachine::PhaseOver() {
  const std::unique_ptr<Phase> phase = std::move(phase_);
  const State was = state_;
  if (was == State::kDetach) {
    detached_ = true;
    SkipRest();
    return;
  }
  switch (phase->cause()) {
    case EndCause::kNone:
    case EndCause::kOverload:
      break;
    case EndCause::kCancel:
      EndRun("cancelled", absl::OkStatus());
      break;
    case EndCause::kLoss:
      // With somebody left the step has failed, and the next one is measured without those that were lost.
      if (!ctx_.GoesOn()) EndRun("aborted", phase->status());
      break;
    case EndCause::kError:
    case EndCause::kStore:
      EndRun("failed", phase->status());
      break;
  }
  if (was == State::kFill) {
    result_.fill_bytes = fill_->bytes_written();
    result_.fill_time = fill_->Elapsed();
    ctx_.actions.emplace_back(SealPhaseAction{fill_->key()});
    fill_ = nullptr;
  }
  if (was == State::kMeasure) {
    phase_ = nullptr;
    result_.start_skew = measure_->StartSkew();
    result_.clock_error = measure_->ClockError();
    result_.figures = measure_->Seal(ctx_);
    NoteLinks();
    if (measure_->started() || phase->cause() == EndCause::kNone || result_.figures.intervals > 0) {
      result_.checks = ctx_.options.judge(result_.figures, ctx_.plan.op_timeout);
    } else {
      // It never began: the error says why, and findings on what was not measured would only bury it.
      result_.figures.sums_error = absl::OkStatus();
    }
  }
  const bool measured = was == State::kMeasure && result_.figures.intervals > 0;
  switch (phase->cause()) {
    case EndCause::kNone:
      if (was == State::kAttach) {
        BeginFill();
      } else if (was == State::kFill) {
        BeginMeasure();
      } else {
        SealMeasured();
      }
      return;
    case EndCause::kOverload:
      StepOver(result_.figures.sums_error.ok() ? StepOutcome::kOverloaded : StepOutcome::kInvalid,
               "a due operation waited longer than overload_after");
      return;
    case EndCause::kCancel:
      StepOver(result_.figures.sums_error.ok() ? StepOutcome::kCancelled : StepOutcome::kInvalid,
               fmt::format("cancelled in {}", PhaseKindName(was == State::kAttach ? PhaseKind::kAttach
                                                            : was == State::kFill ? PhaseKind::kFill
                                                                                  : PhaseKind::kMeasure)));
      return;
    case EndCause::kLoss:
      StepOver(measured ? StepOutcome::kInvalid : StepOutcome::kFailed, FormatError(phase->status()));
      return;
    case EndCause::kError:
    case EndCause::kStore:
      StepOver(StepOutcome::kFailed, FormatError(phase->status()));
      return;
  }
}

void RunMachine::SealMeasured() {
  std::string failed;
  for (const Check& check : result_.checks) {
    if (check.outcome != CheckOutcome::kFail) continue;
    failed += failed.empty() ? "failed checks: " : ", ";
    failed += check.name;
  }
  // Sums are refused here whatever the verdict's list holds: a result that does not add up is never VALID.
  if (failed.empty() && !result_.figures.sums_error.ok()) failed = FormatError(result_.figures.sums_error);
  StepOver(failed.empty() ? StepOutcome::kValid : StepOutcome::kInvalid, failed);
}

void RunMachine::StepOver(StepOutcome outcome, std::string message) {
  result_.outcome = outcome;
  result_.message = std::move(message);
  // A point the plan itself skips says nothing about the others.
  if (outcome != StepOutcome::kValid && outcome != StepOutcome::kSkipped) any_invalid_ = true;
  Seal(std::move(result_));
}

void RunMachine::Seal(StepResult result) {
  const uint32_t attempt = measure_ != nullptr ? measure_->key().attempt : result.step.first_attempt;
  measure_ = nullptr;
  sealing_ = std::make_shared<const StepResult>(std::move(result));
  state_ = State::kSealing;
  deadline_ = ctx_.now + ctx_.options.deadlines.store;
  if (ctx_.store_ok()) {
    ctx_.actions.emplace_back(SealStepAction{ctx_.Key(sealing_->step.index, PhaseKind::kMeasure, attempt), sealing_});
  } else {
    Sealed();
  }
}

void RunMachine::Sealed() {
  ctx_.actions.emplace_back(StepResultAction{std::move(sealing_)});
  ++index_;
  next_ = true;
}

void RunMachine::EndRun(std::string outcome, absl::Status error) {
  if (ending()) return;
  outcome_ = std::move(outcome);
  error_ = std::move(error);
}

void RunMachine::BeginDetach() {
  const uint32_t step = ctx_.plan.steps.empty() ? 0 : ctx_.plan.steps[attach_step_].index;
  Enter(State::kDetach, PhaseKind::kDetach, std::make_unique<DetachPhase>(step), 0);
}

void RunMachine::SkipRest() {
  if (index_ >= ctx_.plan.steps.size()) {
    Finish();
    return;
  }
  result_ = {};
  result_.step = step();
  result_.outcome = StepOutcome::kSkipped;
  result_.message = !step().skip_reason.empty() ? step().skip_reason
                    : outcome_ == "cancelled"   ? "not run: the run was cancelled"
                                                : "not run: " + FormatError(error_);
  Seal(std::move(result_));
}

void RunMachine::Finish() {
  // An agent that was lost when all steps had been measured takes nothing from them; it was told.
  EndRun("complete", absl::OkStatus());
  state_ = State::kFinishing;
  deadline_ = ctx_.now + ctx_.options.deadlines.store;
  ctx_.actions.emplace_back(FinishAction{outcome_, error_.ok() ? std::string() : FormatError(error_)});
}

}  // namespace muster
