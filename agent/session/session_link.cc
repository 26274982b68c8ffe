// Links and the session that outlives them: dialling, Hello, Beats, lease, the end.
#include <fmt/format.h>

#include <algorithm>

#include "agent/session/session_machine.h"
#include "common/base/status.h"
#include "common/base/units.h"

namespace muster::agent {

absl::Status LinkError(std::string code, std::string message) {
  return MakeError(absl::StatusCode::kUnavailable,
                   {.code = std::move(code), .place = "controller", .message = std::move(message), .next = ""});
}

void SessionMachine::CheckLink() {
  if (!session_) return;
  if (now_ >= lease_end_) {
    return EndSession(
        LinkError("LEASE_ENDED", fmt::format("no Beat was answered within the lease of {}", FormatDuration(lease_))));
  }
  if (now_ >= mute_at_) {
    return DropLink(LinkError("LINK_MUTE", fmt::format("no Beat was answered for {}", FormatDuration(MuteAfter()))));
  }
  if (now_ >= greeting_until_) {
    return DropLink(LinkError("GREETING_TIMEOUT",
                              fmt::format("no answer to Hello within {}", FormatDuration(options_.deadlines.resume))));
  }
  if (now_ >= redial_at_) DialNow();
  if (now_ >= next_beat_) {
    next_beat_ = now_ + BeatPeriod();
    SendBeat();
  }
}

void SessionMachine::DialNow() {
  ++link_;
  dialled_ = true;
  dialled_at_ = now_;
  redial_at_ = kNever;
  Dial dial{.link = link_, .hello = options_.hello};
  if (session_ || log_.last_sequence() > 0) {
    dial.hello.holds = true;
    dial.hello.held = {.controller_epoch = epoch_,
                       .key = phase_ ? phase_->spec.key : ended_key_.value_or(PhaseKey{}),
                       .last_sequence = log_.last_sequence(),
                       .heard = control_.heard(),
                       .live = session_,
                       .committed = log_.committed()};
  }
  Do(std::move(dial));
  if (session_) {
    greeting_until_ = now_ + options_.deadlines.resume;
  } else {
    Go(State::kGreeting, now_ + options_.deadlines.greeting);
  }
}

void SessionMachine::RetryIn(Nanos delay) {
  dialled_ = false;
  if (session_) {
    redial_at_ = now_ + delay;
  } else {
    Go(State::kDisconnected, now_ + delay);
  }
}

void SessionMachine::RetryWithBackoff() {
  backoff_ = backoff_ == 0 ? options_.backoff_first : std::min(2 * backoff_, options_.backoff_max);
  RetryIn(backoff_);
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
    const std::string code = GetErrorInfo(error).code;
    if (session_ && code == "SESSION_OVER") return EndSession(error);
    // Said once: the same refusal comes again with every retry.
    const std::string text = FormatError(error);
    if (text != last_refusal_) Do(Note{LogLevel::kError, "the controller refused this agent: " + text});
    last_refusal_ = text;
    Do(CloseLink{});
    greeting_until_ = kNever;
    if (code == "API_VERSION") return RetryIn(options_.version_retry);
    return RetryWithBackoff();
  }
  last_refusal_.clear();
  session_ ? ResumeSession(message) : BeginSession(message);
}

void SessionMachine::BeginSession(const HelloReply& message) {
  if (epoch_ != message.controller_epoch) {
    clock_.Clear();
    in_use_.reset();
  }
  epoch_ = message.controller_epoch;
  if (!log_.empty() && message.wants_reports) {
    if (const absl::Status status = log_.Resume(message.last_committed, message.last_received); !status.ok()) {
      Do(Note{LogLevel::kWarning, FormatError(status)});
      (void)log_.Forget();
    }
    Do(Note{LogLevel::kInfo, fmt::format("{} reports of the ended session are handed over", log_.size())});
    hand_over_by_ = now_ + options_.deadlines.hand_over;
  } else if (const size_t lost = log_.Forget(); lost > 0) {
    Do(Note{
        LogLevel::kWarning,
        fmt::format("{} reports of an ended session were never committed; this controller does not want them", lost)});
  }
  control_.Clear();
  session_ = true;
  lease_ = message.lease;
  // Until the first Beat is answered the link is given as long as a lease; workers get theirs from Beats alone.
  lease_end_ = dialled_at_ + lease_;
  LinkUp(message.link_id);
  Do(Note{LogLevel::kInfo, fmt::format("accepted by the controller (build {}, API {}, lease {})", message.build,
                                       message.api, FormatDuration(lease_))});
  Rest();
}

void SessionMachine::ResumeSession(const HelloReply& message) {
  absl::Status status;
  if (message.controller_epoch != epoch_ || !message.resumed) {
    status = LinkError("SESSION_OVER", "the controller has been restarted, or has given this agent up");
  }
  if (status.ok()) status = control_.Acknowledge(message.heard);
  if (status.ok()) status = log_.Resume(message.last_committed, message.last_received);
  if (!status.ok()) return EndSession(status);
  LinkUp(message.link_id);
  Do(Note{LogLevel::kInfo,
          fmt::format("back after {}: {} messages and {} reports are resumed",
                      FormatLatency(static_cast<double>(now_ - down_since_)), control_.kept().size(), log_.unsent())});
  for (const auto& kept : control_.kept()) Do(Say{.message = kept.message, .seq = kept.seq});
  if (state_ == State::kHandingOver && log_.empty()) Rest();
}

void SessionMachine::LinkUp(uint64_t link_id) {
  link_up_ = true;
  greeting_until_ = kNever;
  mute_at_ = now_ + MuteAfter();
  answered_seq_ = 0;
  answered_t4_ = 0;
  next_beat_ = now_;
  Do(OpenReports{.link_id = link_id});
}

void SessionMachine::SendBeat() {
  if (!link_up_) return;
  unanswered_.emplace_back(++beat_seq_, now_);
  // More cannot be answered within any lease; bounds the memory of a link that swallows.
  if (unanswered_.size() > ClockEstimator::kKept) unanswered_.pop_front();
  Beat beat{.seq = beat_seq_,
            .t1 = now_,
            .previous_seq = answered_seq_,
            .previous_t4 = answered_t4_,
            .heard = control_.heard()};
  if (in_use_) {
    beat.offset = in_use_->offset;
    beat.error = in_use_->ErrorAt(now_);
    beat.round_trip = clock_.WorstRoundTrip();
  }
  Do(Say{.message = beat});
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
  if (absl::Status status = control_.Acknowledge(message.heard); !status.ok()) return EndSession(status);
  if (message.committed > log_.committed()) {
    if (absl::Status status = log_.Commit(message.committed); !status.ok()) return EndSession(status);
    if (state_ == State::kHandingOver && log_.empty()) Rest();
  }
  unanswered_.erase(unanswered_.begin(), asked + 1);
  mute_at_ = now_ + MuteAfter();
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
  if (session_) {
    link_up_ = false;  // it hears nothing more
    return EndSession(LinkError("GOODBYE", "the controller said goodbye: " + message.reason));
  }
  LinkOver();
  leaving_ = true;
  Leave();
}

void SessionMachine::On(const AckArrived& event) {
  if (!link_up_ || event.link != link_) return;
  // The Control stream has ended before the first report came: the session may well go on.
  if (GetErrorInfo(event.error).code == "LINK_UNKNOWN") return DropLink(event.error);
  if (!event.error.ok()) return EndSession(event.error);
  if (const absl::Status status = log_.Commit(event.committed); !status.ok()) return EndSession(status);
  if (state_ == State::kHandingOver && log_.empty()) Rest();
}

void SessionMachine::On(const LinkLost& event) {
  if (!dialled_ || event.link != link_) return;
  DropLink(event.why);
}

// Forgets the link; what was said over it and not acknowledged is kept.
void SessionMachine::LinkOver() {
  if (dialled_) Do(CloseLink{});
  dialled_ = link_up_ = false;
  next_beat_ = greeting_until_ = redial_at_ = mute_at_ = kNever;
  unanswered_.clear();
  if (burst_left_ > 0) {
    burst_left_ = 0;
    burst_until_ = now_;  // what is known of the clock has to do
  }
}

void SessionMachine::DropLink(const absl::Status& why) {
  const bool was_up = link_up_;
  LinkOver();
  const std::string text = FormatError(why);
  if (was_up) {
    down_since_ = now_;
    Do(Note{LogLevel::kWarning,
            fmt::format("link down: {}; what runs goes on until the lease ends in {}", text,
                        FormatLatency(static_cast<double>(std::max<Nanos>(lease_end_ - now_, 0))))});
  } else if (text != last_refusal_) {
    Do(Note{LogLevel::kInfo, "no link: " + text});
    last_refusal_ = text;
  }
  // The first time at once: most breaks are short. Backoff begins anew with an answered Beat only.
  if (session_ && backoff_ == 0) {
    RetryIn(0);
    backoff_ = options_.backoff_first;
  } else {
    RetryWithBackoff();
  }
}

void SessionMachine::EndSession(const absl::Status& why) {
  if (!session_) return DropLink(why);
  Do(Note{exit_wanted_ ? LogLevel::kInfo : LogLevel::kWarning, "the session has ended: " + FormatError(why)});
  if (link_up_) Do(Say{.message = Leaving{.why = why}});
  LinkOver();
  session_ = false;
  control_.Clear();
  if (options_.once && !exit_wanted_) {
    exit_wanted_ = true;
    exit_code_ = 3;
  }
  leaving_ = true;
  if (phase_ && state_ == State::kPreparing) {
    CancelPrepare(why);
  } else if (phase_) {
    AbortPhase(why);
  }
  Leave();
}

}  // namespace muster::agent
