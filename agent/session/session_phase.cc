// One phase that does I/O: prepare, start, run, drain, hand over.
#include <fmt/format.h>

#include <algorithm>

#include "agent/session/session_machine.h"
#include "common/base/status.h"
#include "common/base/units.h"

namespace muster::agent {
namespace {

absl::Status Stale(std::string_view message, const PhaseKey& key, const std::string& at) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   {.code = "MESSAGE_STALE",
                    .place = std::string(message),
                    .message = fmt::format("it names {}, the session is at {}", KeyText(key), at),
                    .next = "Nothing was changed."});
}

absl::Status PhaseError(absl::StatusCode kind, std::string code, const PhaseKey& key, std::string message) {
  return MakeError(kind, {.code = std::move(code), .place = KeyText(key), .message = std::move(message), .next = ""});
}

bool IsFill(const PhaseSpec& spec) {
  return std::holds_alternative<FillSpec>(spec.work);
}

}  // namespace

void SessionMachine::OnMessage(const Prepare& message, Nanos) {
  const PhaseKey& key = message.spec.key;
  if (!CheckKey(key, "Prepare")) return;
  if (last_key_ && !IsAfter(key, *last_key_)) return Refuse(key, Stale("Prepare", key, KeyText(*last_key_)));
  if (targets_.count(message.spec.target) == 0) {
    return Refuse(key, MakeError(absl::StatusCode::kFailedPrecondition, {.code = "TARGET_NOT_ATTACHED",
                                                                         .place = "target " + message.spec.target,
                                                                         .message = "it is not attached on this agent",
                                                                         .next = "Nothing was changed."}));
  }
  last_key_ = key;
  phase_.emplace();
  phase_->spec = message.spec;
  phase_->engine = ++engines_;
  work_ = Work::kPrepare;
  Do(DoPrepare{.engine = phase_->engine, .spec = message.spec, .deadline = now_ + message.allowed});
  Go(State::kPreparing, now_ + message.allowed + options_.deadlines.answer_grace);
}

void SessionMachine::On(const PrepareFinished& event) {
  if (work_ != Work::kPrepare) return;
  work_ = Work::kNone;
  engine_held_ = event.status.ok();
  if (!phase_) {  // answered for already
    if (!engine_held_) return Unpoison();
    Do(EngineAbort{});
    return Release(options_.deadlines.release);
  }
  if (!engine_held_) {
    AnswerPrepare(phase_->cancelled ? phase_->failure : event.status);
    return Rest();
  }
  phase_->ready = true;
  phase_->memory_bytes = event.memory_bytes;
  phase_->facts = event.facts;
  if (phase_->cancelled) {
    Do(EngineAbort{});
    return Release(options_.deadlines.release);
  }
  if (!link_up_) return MaybePrepared();  // what is known of the clock has to do
  // The burst precedes every start as closely as it can: age costs 100 ppm.
  burst_left_ = options_.burst_probes;
  burst_until_ = std::min(now_ + options_.deadlines.burst, deadline_);
  SendBeat();
}

void SessionMachine::MaybePrepared() {
  if (state_ != State::kPreparing || !phase_->ready || phase_->cancelled || burst_left_ > 0) return;
  if (!in_use_) {
    return CancelPrepare(PhaseError(absl::StatusCode::kUnavailable, "CLOCK_UNKNOWN", phase_->spec.key,
                                    "no Beat has been answered: the start instant could not be translated"));
  }
  Tell(
      PrepareDone{.key = phase_->spec.key, .status = {}, .memory_bytes = phase_->memory_bytes, .facts = phase_->facts});
  Go(State::kPrepared, now_ + options_.deadlines.prepared_to_start);
}

// Ends a phase before Prepared was answered; `why` will be the answer, once the engine is gone.
void SessionMachine::CancelPrepare(absl::Status why) {
  if (phase_->cancelled) return;
  phase_->cancelled = true;
  phase_->failure = std::move(why);
  burst_left_ = 0;
  burst_until_ = kNever;
  if (!phase_->ready) return;  // PrepareFinished goes on
  Do(EngineAbort{});
  Release(options_.deadlines.release);
}

void SessionMachine::AnswerPrepare(absl::Status status) {
  Tell(PrepareDone{.key = phase_->spec.key, .status = std::move(status)});
  phase_.reset();
  burst_left_ = 0;
  burst_until_ = kNever;
}

void SessionMachine::OnMessage(const Start& message, Nanos) {
  if (message.key != phase_->spec.key)
    return Refuse(message.key, Stale("Start", message.key, KeyText(phase_->spec.key)));
  const ClockEstimate estimate = *in_use_;
  const Nanos ahead_max = options_.deadlines.prepared_to_start;
  const Nanos now_fleet = now_ + estimate.offset;
  if (message.t0_fleet > now_fleet + ahead_max) {
    return Refuse(message.key,
                  MakeError(absl::StatusCode::kInvalidArgument,
                            {.code = "MESSAGE_INVALID",
                             .place = "Start.t0_fleet",
                             .message = fmt::format("the instant lies more than {} ahead", FormatDuration(ahead_max)),
                             .next = "Nothing was changed."}));
  }
  StartDone done{.key = message.key, .offset = estimate.offset, .error = estimate.ErrorAt(now_)};
  if (message.t0_fleet <= now_fleet) {
    // Still prepared: the controller repeats the barrier or stops the phase.
    done.missed = true;
    done.local_t0 = std::max(message.t0_fleet, -kNever) - estimate.offset;
    return Tell(done);
  }
  SessionPhase& phase = *phase_;
  phase.local_t0 = done.local_t0 = message.t0_fleet - estimate.offset;
  phase.progress = phase.local_t0;
  phase.at_start = estimate;
  phase.error_at_start = done.error;
  if (const auto* measure = std::get_if<MeasureSpec>(&phase.spec.work)) {
    const int64_t intervals = int64_t{measure->warmup_intervals} + measure->window_intervals;
    phase.last_edge = phase.local_t0 + intervals * phase.spec.interval;
  }
  Do(EngineStart{.t0_fleet = message.t0_fleet});
  Tell(done);
  Go(State::kArmed, phase.local_t0);
}

void SessionMachine::OnMessage(const Stop& message, Nanos) {
  if (!phase_ || message.key != phase_->spec.key) {
    // A stop that crossed the end of its phase on the way: the end is the answer.
    if (ended_key_ == message.key) return;
    const PhaseKey* at = phase_ ? &phase_->spec.key : last_key_ ? &*last_key_ : nullptr;
    return Refuse(message.key, Stale("Stop", message.key, at ? KeyText(*at) : "no phase"));
  }
  if (state_ == State::kPreparing) {
    return CancelPrepare(
        PhaseError(absl::StatusCode::kCancelled, "STOPPED", message.key, "stopped before it was prepared"));
  }
  if (message.now || state_ == State::kPrepared) return AbortPhase(absl::OkStatus());
  if (state_ == State::kDraining) return;  // past its last edge already
  SessionPhase& phase = *phase_;
  Do(EngineStopAfter{.interval = message.after_interval});
  const Nanos asked = phase.local_t0 + (message.after_interval + 1) * phase.spec.interval;
  // The engine ends at an edge that is not past.
  const Nanos passed = std::max<Nanos>(now_ - phase.local_t0, 0) / phase.spec.interval;
  const Nanos next_edge = phase.local_t0 + (passed + 1) * phase.spec.interval;
  phase.last_edge = std::min(phase.last_edge, std::max(asked, next_edge));
  if (state_ == State::kRunning) Go(State::kRunning, RunDeadline());
}

Nanos SessionMachine::DrainAllowed() const {
  return phase_->spec.op_timeout + options_.deadlines.drain_slack + options_.deadlines.drain_grace;
}

// While it runs: its last edge, or op timeout + slack after the last sign of life.
Nanos SessionMachine::RunDeadline() const {
  return std::min(phase_->last_edge,
                  phase_->progress + phase_->spec.interval + phase_->spec.op_timeout + options_.deadlines.drain_slack);
}

void SessionMachine::CheckPhaseTime() {
  SessionPhase& phase = *phase_;
  const PhaseKey key = phase.spec.key;
  switch (state_) {
    case State::kPrepared:
      return AbortPhase(PhaseError(
          absl::StatusCode::kDeadlineExceeded, "START_TIMEOUT", key,
          fmt::format("no Start came within {} of Prepared", FormatDuration(options_.deadlines.prepared_to_start))));
    case State::kArmed:
      return Go(State::kRunning, RunDeadline());
    case State::kRunning:
      if (now_ >= phase.last_edge) return Go(State::kDraining, phase.last_edge + DrainAllowed());
      return AbortPhase(PhaseError(absl::StatusCode::kDeadlineExceeded, "NO_PROGRESS", key,
                                   fmt::format("nothing has moved for {}", FormatDuration(now_ - phase.progress))));
    case State::kDraining: {
      // The engine has not ended by its own drain deadline, or its threads do not join.
      if (!phase.aborted && !phase.ended) Do(EngineAbort{});
      PhaseTotals totals = phase.ended ? phase.ended->totals : PhaseTotals{};
      totals.poisoned = true;
      const std::string target = phase.spec.target;
      absl::Status status = MakeError(absl::StatusCode::kDeadlineExceeded,
                                      {.code = "DRAIN_TIMEOUT",
                                       .place = fmt::format("{} target {}", KeyText(key), target),
                                       .message = "operations have not come back within op timeout and drain",
                                       .next = "The target hangs; the agent takes no new phase until they return."});
      poison_ = fmt::format("{} on target {}", KeyText(key), target);
      Do(Note{LogLevel::kError, "poisoned: " + FormatError(status)});
      next_release_ = now_ + kSecond;
      return EndPhase(std::move(totals), status);
    }
    default:
      return;
  }
}

// What is missing from here on weighs more than what ended the phase before: its totals will not add up.
void SessionMachine::Lossy(const absl::Status& why) {
  phase_->lossy = true;
  phase_->failure = why;
  AbortPhase(why);
}

void SessionMachine::AbortPhase(const absl::Status& why) {
  SessionPhase& phase = *phase_;
  if (phase.failure.ok()) phase.failure = why;
  if (phase.aborted || phase.ended) return;
  phase.aborted = true;
  Do(EngineAbort{});
  Go(State::kDraining, now_ + DrainAllowed());
}

void SessionMachine::On(const EngineFirstIo& event) {
  if (!IsCurrent(event.engine)) return;
  phase_->progress = std::max(phase_->progress, now_);
  Tell(FirstIo{.key = phase_->spec.key,
               .local = event.local,
               .fleet = event.local + (phase_->at_start ? phase_->at_start->offset : 0),
               .wake_lateness = event.wake_lateness});
}

void SessionMachine::On(const EngineInterval& event) {
  if (!IsCurrent(event.engine)) return;
  SessionPhase& phase = *phase_;
  // A fill moves when bytes do (EngineProgress); empty intervals of a hung target are no progress there.
  if (!IsFill(phase.spec)) phase.progress = std::max(phase.progress, now_);
  if (state_ == State::kRunning) Go(State::kRunning, RunDeadline());
  if (phase.lossy) return;
  const auto* measure = std::get_if<MeasureSpec>(&phase.spec.work);
  const int64_t warmup = measure != nullptr ? measure->warmup_intervals : 0;
  if (const absl::Status status = log_.Append(phase.spec.key, event.delta, warmup); !status.ok()) {
    Lossy(status);
  }
}

void SessionMachine::On(const EngineHeld& event) {
  if (!IsCurrent(event.engine) || phase_->lossy) return;
  if (const absl::Status status = log_.Append(phase_->spec.key, event.held); !status.ok()) {
    Lossy(status);
  }
}

void SessionMachine::On(const EngineOverrun& event) {
  if (!IsCurrent(event.engine)) return;
  Lossy(PhaseError(absl::StatusCode::kResourceExhausted, "REPORTS_LOST", phase_->spec.key,
                   "interval reports came faster than the session could take them"));
}

void SessionMachine::On(const EngineProgress& event) {
  if (!IsCurrent(event.engine)) return;
  if (event.bytes_done > phase_->bytes_done) phase_->progress = std::max(phase_->progress, now_);
  phase_->bytes_done = event.bytes_done;
  if (state_ == State::kRunning) Go(State::kRunning, RunDeadline());
  // The next one says more: none is kept for a link that is down.
  if (link_up_)
    Tell(Progress{.key = phase_->spec.key, .bytes_done = event.bytes_done, .bytes_total = event.bytes_total});
}

void SessionMachine::On(const EngineEnded& event) {
  if (!IsCurrent(event.engine) || phase_->ended || state_ == State::kPreparing) return;
  phase_->ended = event;
  Go(State::kDraining, now_ + options_.deadlines.release + options_.deadlines.drain_grace);
  Release(options_.deadlines.release);
}

void SessionMachine::Release(Nanos wait) {
  work_ = Work::kRelease;
  Do(DoRelease{.deadline = now_ + wait});
}

void SessionMachine::On(const ReleaseFinished& event) {
  if (work_ != Work::kRelease) return;
  work_ = Work::kNone;
  if (event.joined) engine_held_ = false;
  if (!phase_) {
    if (event.joined) return Unpoison();
    next_release_ = now_ + kSecond;
    return;
  }
  const std::string what = fmt::format("{} on target {}", KeyText(phase_->spec.key), phase_->spec.target);
  if (!event.joined) {
    poison_ = what;
    Do(Note{LogLevel::kError, "poisoned: " + what + " has not come back"});
    next_release_ = now_ + kSecond;
  }
  if (state_ == State::kPreparing) {
    AnswerPrepare(phase_->failure);
    return Rest();
  }
  PhaseTotals totals = std::move(phase_->ended->totals);
  if (!event.joined) totals.poisoned = true;
  if (event.joined && totals.poisoned) {
    // The threads have left operations behind with the kernel; nothing will tell when those return.
    poison_ = what + " (operations abandoned)";
    poisoned_for_good_ = true;
    Do(Note{LogLevel::kError, "poisoned until the agent is restarted: " + poison_});
  }
  EndPhase(std::move(totals), absl::Status(phase_->ended->status));
}

void SessionMachine::EndPhase(PhaseTotals totals, const absl::Status& status) {
  const SessionPhase& phase = *phase_;
  PhaseEnded ended{.totals = std::move(totals), .status = phase.failure.ok() ? status : phase.failure};
  const ClockEstimate at_end = in_use_.value_or(ClockEstimate{});
  ended.offset_at_start = phase.at_start ? phase.at_start->offset : at_end.offset;
  ended.error_at_start = phase.at_start ? phase.error_at_start : at_end.ErrorAt(now_);
  ended.offset_at_end = at_end.offset;
  ended.error_at_end = at_end.ErrorAt(now_);
  ended_key_ = phase.spec.key;
  log_.AppendEnd(phase.spec.key, std::move(ended));
  hand_over_by_ = now_ + options_.deadlines.hand_over;
  phase_.reset();
  Rest();
}

void SessionMachine::PumpReports() {
  if (!link_up_) return;
  while (auto report = log_.NextToSend()) Do(SendReport{std::move(report)});
}

}  // namespace muster::agent
