// Attaching, looking at and releasing targets; leaving; poison.
#include <fmt/format.h>

#include "agent/session/session_machine.h"
#include "common/base/status.h"
#include "common/base/units.h"

namespace muster::agent {
namespace {

absl::Status Overdue(std::string code, std::string place, std::string_view what) {
  return MakeError(absl::StatusCode::kDeadlineExceeded,
                   {.code = std::move(code),
                    .place = std::move(place),
                    .message = fmt::format("{} has not returned within its deadline", what),
                    .next = "A system call hangs; the agent takes no new work until it returns."});
}

}  // namespace

void SessionMachine::OnMessage(const Attach& message, Nanos) {
  if (!CheckKey(message.key, "Attach")) return;
  const std::string& target = message.request.target.name;
  if (last_key_ && !run_.empty() && !IsAfter(message.key, *last_key_)) {
    return Refuse(message.key, MakeError(absl::StatusCode::kFailedPrecondition,
                                         {.code = "MESSAGE_STALE",
                                          .place = "Attach",
                                          .message = fmt::format("it names {}, the session is at {}",
                                                                 KeyText(message.key), KeyText(*last_key_)),
                                          .next = "Nothing was changed."}));
  }
  if (targets_.count(target) != 0) {
    return Refuse(message.key, MakeError(absl::StatusCode::kFailedPrecondition,
                                         {.code = "MESSAGE_OUT_OF_ORDER",
                                          .place = "Attach",
                                          .message = fmt::format("target {} is attached already", target),
                                          .next = "Nothing was changed."}));
  }
  run_ = message.key.run;
  last_key_ = message.key;
  attaching_ = message;
  work_ = Work::kAttach;
  Do(DoAttach{.request = message.request});
  Go(State::kAttaching, now_ + message.allowed);
}

void SessionMachine::On(const AttachFinished& event) {
  if (work_ != Work::kAttach) return;
  work_ = Work::kNone;
  if (!attaching_) {  // answered for already
    if (event.status.ok()) {
      targets_.insert(late_target_);
      detach_when_free_ = true;
    }
    return Unpoison();
  }
  const std::string target = attaching_->request.target.name;
  if (event.status.ok()) targets_.insert(target);
  Tell(AttachDone{.key = attaching_->key,
                  .target = target,
                  .status = event.status,
                  .generation = event.generation,
                  .evidence = event.evidence});
  attaching_.reset();
  if (owed_detach_ && !leaving_) {
    BeginDetach(std::exchange(owed_detach_, std::nullopt));
  } else {
    owed_detach_.reset();
    Rest();
  }
}

void SessionMachine::OnMessage(const Inspect& message, Nanos) {
  inspecting_ = message;
  work_ = Work::kInspect;
  Do(DoInspect{.items = message.items});
  Go(State::kInspecting, now_ + options_.deadlines.inspect);
}

void SessionMachine::On(const InspectFinished& event) {
  if (work_ != Work::kInspect) return;
  work_ = Work::kNone;
  if (!inspecting_) return Unpoison();
  Tell(InspectDone{.request = inspecting_->request, .inspections = event.inspections});
  inspecting_.reset();
  Rest();
}

void SessionMachine::OnMessage(const Detach& message, Nanos) {
  if (!CheckKey(message.key, "Detach")) return;
  if (state_ == State::kAttaching) {
    owed_detach_ = message;
    return;
  }
  if (state_ == State::kPoisoned) {
    // Descriptors may be in use by what is stuck: released when it returns.
    detach_when_free_ = !targets_.empty();
    return Tell(DetachDone{.key = message.key, .status = PoisonedError()});
  }
  BeginDetach(message);
}

// Without `asked` everything is released because the session is leaving, and nobody is told.
void SessionMachine::BeginDetach(std::optional<Detach> asked) {
  const bool all = !asked || asked->all;
  if (!all && targets_.count(asked->target) == 0) {
    Tell(DetachDone{
        .key = asked->key,
        .status = MakeError(absl::StatusCode::kFailedPrecondition, {.code = "TARGET_NOT_ATTACHED",
                                                                    .place = "target " + asked->target,
                                                                    .message = "it is not attached on this agent",
                                                                    .next = "Nothing was changed."})});
    return Rest();
  }
  if (targets_.empty()) {
    if (asked) Tell(DetachDone{.key = asked->key, .status = {}});
    return Rest();
  }
  work_ = Work::kDetach;
  Do(DoDetach{.all = all, .target = all ? std::string() : asked->target});
  detaching_ = std::move(asked);
  Go(State::kDetaching, now_ + options_.deadlines.detach);
}

void SessionMachine::On(const DetachFinished& event) {
  if (work_ != Work::kDetach) return;
  work_ = Work::kNone;
  if (detaching_ && !detaching_->all) {
    targets_.erase(detaching_->target);
  } else {
    targets_.clear();
  }
  if (!event.status.ok()) Do(Note{LogLevel::kWarning, "detach: " + FormatError(event.status)});
  if (state_ != State::kDetaching) return Unpoison();  // answered for already, or nobody asked
  if (detaching_) Tell(DetachDone{.key = detaching_->key, .status = event.status});
  detaching_.reset();
  Rest();
}

// The work thread has not come back in time: answer for it, and take no new work until it does.
void SessionMachine::WorkOverdue() {
  switch (state_) {
    case State::kAttaching: {
      late_target_ = attaching_->request.target.name;
      const absl::Status status = Overdue("ATTACH_TIMEOUT", "target " + late_target_, "Attach");
      Tell(AttachDone{.key = attaching_->key, .target = late_target_, .status = status});
      if (owed_detach_) Tell(DetachDone{.key = owed_detach_->key, .status = status});
      attaching_.reset();
      owed_detach_.reset();
      return Poison("Attach of target " + late_target_);
    }
    case State::kInspecting: {
      InspectDone done{.request = inspecting_->request};
      for (const InspectItem& item : inspecting_->items) {
        const absl::Status status = Overdue("INSPECT_TIMEOUT", "target " + item.target.name, "Inspect");
        TargetInspection& inspection = done.inspections.emplace_back();
        inspection.target = item.target.name;
        inspection.verdict = GetErrorInfo(status).message;
        inspection.refusal = status;
      }
      Tell(std::move(done));
      inspecting_.reset();
      return Poison("Inspect");
    }
    case State::kPreparing: {
      const PhaseKey key = phase_->spec.key;
      AnswerPrepare(Overdue("PREPARE_TIMEOUT", "target " + phase_->spec.target, "Prepare"));
      return Poison("Prepare of " + KeyText(key));
    }
    case State::kDetaching:
      if (detaching_) Tell(DetachDone{.key = detaching_->key, .status = Overdue("DETACH_TIMEOUT", "", "Detach")});
      detaching_.reset();
      return Poison("Detach");
    default:
      return;
  }
}

absl::Status SessionMachine::PoisonedError() const {
  return MakeError(absl::StatusCode::kFailedPrecondition, {.code = "AGENT_POISONED",
                                                           .place = "agent " + options_.hello.agent_id,
                                                           .message = poison_ + " has not come back",
                                                           .next = "Wait until it does, or restart the agent."});
}

void SessionMachine::Poison(std::string why) {
  poison_ = std::move(why);
  Do(Note{LogLevel::kError, "poisoned: " + poison_ + " has not come back"});
  if (engine_held_) next_release_ = now_ + kSecond;
  Rest();
}

// What was stuck has come back. Its targets may be owed a release, which is part of the poison until it is done.
void SessionMachine::Unpoison() {
  if (poisoned_for_good_ || engine_held_ || work_ != Work::kNone) return;
  if (detach_when_free_ && !targets_.empty()) {
    detach_when_free_ = false;
    poison_ = "Detach of the last run's targets";
    work_ = Work::kDetach;
    Do(DoDetach{.all = true, .target = {}});
    return;
  }
  detach_when_free_ = false;
  if (!poison_.empty()) Do(Note{LogLevel::kInfo, "no longer poisoned: " + poison_ + " has come back"});
  poison_.clear();
  if (state_ == State::kPoisoned) Rest();
}

void SessionMachine::Rest() {
  if (leaving_) return Leave();
  if (!session_) return;
  if (targets_.empty()) {
    run_.clear();
    last_key_.reset();
  }
  if (!poison_.empty()) return Go(State::kPoisoned, kNever);
  if (!log_.empty()) return Go(State::kHandingOver, hand_over_by_);
  Go(targets_.empty() ? State::kIdle : State::kAttached, kNever);
}

void SessionMachine::Leave() {
  if (phase_) return;  // cancelled or aborted already: its end goes on
  if (!poison_.empty()) {
    detach_when_free_ = !targets_.empty();
    return Left();
  }
  if (work_ != Work::kNone) return;  // it comes back, or its deadline does
  if (!targets_.empty()) return BeginDetach(std::nullopt);
  Left();
}

void SessionMachine::Left() {
  leaving_ = false;
  run_.clear();
  last_key_.reset();
  if (exit_wanted_) {
    const bool clean = poison_.empty() && work_ == Work::kNone && !engine_held_;
    Do(Exit{.code = clean ? exit_code_ : 3, .clean = clean});
    return Go(State::kStopped, kNever);
  }
  RetryWithBackoff();
}

}  // namespace muster::agent
