#include "agent/session/session_machine.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/status.h"
#include "common/base/units.h"

namespace muster::agent {
namespace {

absl::Status LinkError(std::string code, std::string message) {
  return MakeError(absl::StatusCode::kUnavailable,
                   {.code = std::move(code), .place = "controller", .message = std::move(message), .next = ""});
}

// The phase a message names, where it names one.
struct KeyOf {
  const PhaseKey* operator()(const Attach& m) const { return &m.key; }
  const PhaseKey* operator()(const Prepare& m) const { return &m.spec.key; }
  const PhaseKey* operator()(const Start& m) const { return &m.key; }
  const PhaseKey* operator()(const Stop& m) const { return &m.key; }
  const PhaseKey* operator()(const Detach& m) const { return &m.key; }
  template <typename Other>
  const PhaseKey* operator()(const Other&) const {
    return nullptr;
  }
};

}  // namespace

SessionMachine::SessionMachine(SessionOptions options) : options_(std::move(options)), log_(options_.log) {}

std::vector<Action> SessionMachine::Step(const Event& event, Nanos now) {
  now_ = now;
  if (state_ != State::kStopped) std::visit([this](const auto& e) { On(e); }, event);
  if (state_ != State::kStopped) CheckTime();
  if (state_ != State::kStopped) PumpReports();
  return std::exchange(actions_, {});
}

Nanos SessionMachine::NextDeadline() const {
  if (state_ == State::kStopped) return kNever;
  Nanos at = std::min({deadline_, exit_by_, next_beat_, burst_until_, next_release_});
  if (link_up_) at = std::min(at, lease_end_);
  return at;
}

void SessionMachine::Go(State state, Nanos deadline) {
  state_ = state;
  deadline_ = deadline;
}

void SessionMachine::On(const Tick&) {}

// Every bound is looked at after every event, so that one that comes late (a stopped process) still meets them first.
void SessionMachine::CheckTime() {
  if (now_ >= exit_by_) {
    Do(Note{LogLevel::kError, fmt::format("not ended {} after it was asked to, in state {}: leaving as it is",
                                          FormatDuration(options_.deadlines.shutdown), StateName(state_))});
    Do(Exit{.code = 3, .clean = false});
    Go(State::kStopped, kNever);
    return;
  }
  CheckLink();
  if (now_ >= burst_until_) {
    burst_left_ = 0;
    burst_until_ = kNever;
    MaybePrepared();
  }
  if (now_ >= next_release_) {
    next_release_ = kNever;
    if (work_ == Work::kNone && engine_held_) Release(0);
  }
  if (now_ < deadline_) return;
  switch (state_) {
    case State::kDisconnected:
      return DialNow();
    case State::kGreeting:
      return DropLink(LinkError("GREETING_TIMEOUT", fmt::format("no answer to Hello within {}",
                                                                FormatDuration(options_.deadlines.greeting))));
    case State::kAttaching:
    case State::kInspecting:
    case State::kPreparing:
    case State::kDetaching:
      return WorkOverdue();
    case State::kPrepared:
    case State::kArmed:
    case State::kRunning:
    case State::kDraining:
      return CheckPhaseTime();
    case State::kHandingOver:
      return DropLink(LinkError("ACK_TIMEOUT", fmt::format("{} reports were not committed within {}", log_.size(),
                                                           FormatDuration(options_.deadlines.hand_over))));
    case State::kIdle:
    case State::kAttached:
    case State::kPoisoned:
    case State::kStopped:
      return;  // bounded by the lease alone
  }
}

void SessionMachine::CheckLink() {
  if (!link_up_) return;
  if (now_ >= lease_end_) {
    return DropLink(
        LinkError("LEASE_ENDED", fmt::format("no Beat was answered within the lease of {}", FormatDuration(lease_))));
  }
  if (now_ >= next_beat_) {
    next_beat_ = now_ + options_.beat;
    SendBeat();
  }
}

void SessionMachine::DialNow() {
  ++link_;
  dialled_ = true;
  dialled_at_ = now_;
  Dial dial{.link = link_, .hello = options_.hello};
  if (log_.last_sequence() > 0 && ended_key_) {
    dial.hello.holds = true;
    dial.hello.held = {.controller_epoch = epoch_, .key = *ended_key_, .last_sequence = log_.last_sequence()};
  }
  Do(std::move(dial));
  Go(State::kGreeting, now_ + options_.deadlines.greeting);
}

void SessionMachine::RetryIn(Nanos delay) {
  dialled_ = false;
  Go(State::kDisconnected, now_ + delay);
}

void SessionMachine::RetryWithBackoff() {
  backoff_ = backoff_ == 0 ? options_.backoff_first : std::min(2 * backoff_, options_.backoff_max);
  RetryIn(backoff_);
}

void SessionMachine::On(const MessageArrived& event) {
  if (!dialled_ || event.link != link_) return;
  const auto kind = static_cast<MessageKind>(event.message.index());
  if (!Accepts(state_, kind)) {
    const PhaseKey* named = std::visit(KeyOf{}, event.message);
    const PhaseKey key = named ? *named : last_key_.value_or(PhaseKey{});
    if (!poison_.empty() && state_ == State::kPoisoned) return Refuse(key, PoisonedError());
    return Refuse(key, MakeError(absl::StatusCode::kFailedPrecondition,
                                 {.code = "MESSAGE_OUT_OF_ORDER",
                                  .place = std::string(MessageName(kind)),
                                  .message = fmt::format("it cannot come while the agent is {}", StateName(state_)),
                                  .next = "Nothing was changed."}));
  }
  std::visit([&](const auto& message) { OnMessage(message, event.received); }, event.message);
}

void SessionMachine::On(const BadMessage& event) {
  if (!dialled_ || event.link != link_) return;
  if (!link_up_) return DropLink(event.status);
  Refuse(event.key, event.status);
}

void SessionMachine::Refuse(const PhaseKey& key, absl::Status status) {
  Do(Note{LogLevel::kWarning, "refused: " + FormatError(status)});
  Do(Say{Refused{.key = key, .status = std::move(status)}});
}

// False, and refused, unless the message names the run at hand.
bool SessionMachine::CheckKey(const PhaseKey& key, std::string_view message) {
  if (run_.empty() || key.run == run_) return true;
  Refuse(key, MakeError(absl::StatusCode::kFailedPrecondition,
                        {.code = "MESSAGE_STALE",
                         .place = std::string(message),
                         .message = fmt::format("it names {}, the session is at {}", KeyText(key),
                                                last_key_ ? KeyText(*last_key_) : "run " + run_),
                         .next = "Nothing was changed."}));
  return false;
}

void SessionMachine::OnMessage(const HelloReply& message, Nanos) {
  absl::Status error = message.error;
  const bool spoken = message.api >= options_.hello.api_min && message.api <= options_.hello.api_max;
  if (error.ok() && (!spoken || message.lease <= 0)) {
    error = MakeError(absl::StatusCode::kInvalidArgument,
                      {.code = "MESSAGE_INVALID",
                       .place = "HelloReply",
                       .message = fmt::format("API {} or lease {} ns cannot be used", message.api, message.lease),
                       .next = "The controller runs another or a damaged version."});
  }
  if (!error.ok()) {
    // Said once: the same refusal comes again with every retry.
    const std::string text = FormatError(error);
    if (text != last_refusal_) Do(Note{LogLevel::kError, "the controller refused this agent: " + text});
    last_refusal_ = text;
    Do(CloseLink{});
    if (GetErrorInfo(error).code == "API_VERSION") return RetryIn(options_.version_retry);
    return RetryWithBackoff();
  }
  last_refusal_.clear();
  if (const size_t lost = log_.Forget(); lost > 0) {
    Do(Note{LogLevel::kWarning, fmt::format("{} reports of an earlier link were never committed", lost)});
  }
  link_up_ = true;
  if (epoch_ != message.controller_epoch) {
    clock_.Clear();
    in_use_.reset();
  }
  epoch_ = message.controller_epoch;
  lease_ = message.lease;
  // Until the first Beat is answered the link is given as long as a lease; workers get theirs from Beats alone.
  lease_end_ = dialled_at_ + lease_;
  answered_seq_ = 0;
  answered_t4_ = 0;
  Do(OpenReports{.link_id = message.link_id});
  Do(Note{LogLevel::kInfo, fmt::format("accepted by the controller (build {}, API {}, lease {})", message.build,
                                       message.api, FormatDuration(lease_))});
  next_beat_ = now_;
  Rest();
}

void SessionMachine::SendBeat() {
  unanswered_.emplace_back(++beat_seq_, now_);
  // More cannot be answered within any lease; bounds the memory of a link that swallows.
  if (unanswered_.size() > ClockEstimator::kKept) unanswered_.pop_front();
  Beat beat{.seq = beat_seq_, .t1 = now_, .previous_seq = answered_seq_, .previous_t4 = answered_t4_};
  if (in_use_) {
    beat.offset = in_use_->offset;
    beat.error = in_use_->ErrorAt(now_);
    beat.round_trip = clock_.WorstRoundTrip();
  }
  Tell(beat);
}

void SessionMachine::OnMessage(const BeatReply& message, Nanos received) {
  const auto asked = std::find(unanswered_.begin(), unanswered_.end(), std::pair(message.seq, message.t1));
  if (asked == unanswered_.end()) {
    return Refuse(
        last_key_.value_or(PhaseKey{}),
        MakeError(absl::StatusCode::kFailedPrecondition,
                  {.code = "MESSAGE_STALE",
                   .place = "BeatReply",
                   .message = fmt::format("it answers beat {} of {} ns, which is not waited for; the last one "
                                          "sent is {}",
                                          message.seq, message.t1, beat_seq_),
                   .next = "Nothing was changed."}));
  }
  if (absl::Status probe = clock_.Add(message.t1, message.t2, message.t3, received); !probe.ok()) {
    return Refuse(last_key_.value_or(PhaseKey{}), std::move(probe));
  }
  unanswered_.erase(unanswered_.begin(), asked + 1);
  answered_seq_ = message.seq;
  answered_t4_ = received;
  backoff_ = 0;
  // From the send time: a delayed answer cannot extend the lease.
  lease_end_ = std::max(lease_end_, message.t1 + lease_);
  Do(SetLease{lease_end_});
  if (const auto best = clock_.Best(now_); best != in_use_) {
    in_use_ = best;
    Do(SetClock{*in_use_});
  }
  if (burst_left_ == 0) return;
  if (--burst_left_ > 0) return SendBeat();
  burst_until_ = kNever;
  MaybePrepared();
}

void SessionMachine::OnMessage(const Goodbye& message, Nanos) {
  Do(Note{LogLevel::kInfo, "the controller said goodbye: " + message.reason});
  if (options_.once) exit_wanted_ = true;
  DropLink(LinkError("GOODBYE", "the controller said goodbye: " + message.reason));
}

void SessionMachine::On(const AckArrived& event) {
  if (!link_up_ || event.link != link_) return;
  if (!event.error.ok()) return DropLink(event.error);
  if (const absl::Status status = log_.Commit(event.committed); !status.ok()) return DropLink(status);
  if (state_ == State::kHandingOver && log_.empty()) Rest();
}

void SessionMachine::On(const LinkLost& event) {
  if (!dialled_ || event.link != link_) return;
  DropLink(event.why);
}

void SessionMachine::DropLink(const absl::Status& why) {
  const bool was_up = link_up_;
  Do(CloseLink{});
  dialled_ = link_up_ = false;
  next_beat_ = kNever;
  burst_left_ = 0;
  burst_until_ = kNever;
  unanswered_.clear();
  if (was_up) {
    Do(Note{exit_wanted_ ? LogLevel::kInfo : LogLevel::kWarning, "the link has ended: " + FormatError(why)});
    if (options_.once && !exit_wanted_) {
      exit_wanted_ = true;
      exit_code_ = 3;
    }
  } else if (const std::string text = FormatError(why); text != last_refusal_) {
    Do(Note{LogLevel::kInfo, "no link: " + text});
    last_refusal_ = text;
  }
  leaving_ = true;
  if (phase_ && state_ != State::kPreparing) AbortPhase(why);
  if (phase_ && state_ == State::kPreparing) CancelPrepare(why);
  Leave();
}

void SessionMachine::On(const ShutdownAsked& event) {
  if (exit_by_ != kNever) {
    exit_by_ = now_;  // asked twice: at once
    return;
  }
  Do(Note{LogLevel::kInfo, "ending: " + event.why});
  exit_wanted_ = true;
  exit_by_ = now_ + options_.deadlines.shutdown;
  if (dialled_)
    return DropLink(MakeError(
        absl::StatusCode::kCancelled,
        {.code = "AGENT_ENDING", .place = "agent " + options_.hello.agent_id, .message = event.why, .next = ""}));
  leaving_ = true;
  Leave();
}

}  // namespace muster::agent
