#include "agent/session/session_machine.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/status.h"
#include "common/base/units.h"

namespace muster::agent {
namespace {

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
  if (state_ != State::kStopped && !control_full_.ok()) EndSession(std::exchange(control_full_, absl::OkStatus()));
  if (state_ != State::kStopped) PumpReports();
  return std::exchange(actions_, {});
}

Nanos SessionMachine::NextDeadline() const {
  if (state_ == State::kStopped) return kNever;
  Nanos at = std::min({deadline_, exit_by_, next_beat_, burst_until_, next_release_, redial_at_, greeting_until_});
  if (session_) at = std::min({at, lease_end_, mute_at_});
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
      return EndSession(LinkError("ACK_TIMEOUT", fmt::format("{} reports were not committed within {}", log_.size(),
                                                             FormatDuration(options_.deadlines.hand_over))));
    case State::kIdle:
    case State::kAttached:
    case State::kPoisoned:
    case State::kStopped:
      return;  // bounded by the lease alone
  }
}

void SessionMachine::On(const MessageArrived& event) {
  if (!dialled_ || event.link != link_) return;
  const auto kind = static_cast<MessageKind>(event.message.index());
  if (!link_up_ && !Accepts(State::kGreeting, kind)) {
    return DropLink(LinkError("MESSAGE_OUT_OF_ORDER", fmt::format("{} came before HelloReply", MessageName(kind))));
  }
  const bool numbered =
      kind != MessageKind::kHelloReply && kind != MessageKind::kBeatReply && kind != MessageKind::kGoodbye;
  if (numbered && !Hear(event.seq)) return;
  if (link_up_ && !Accepts(state_, kind)) {
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

// Whether a numbered message is to be taken.
bool SessionMachine::Hear(uint64_t seq) {
  const absl::StatusOr<bool> fresh = control_.Hear(seq);
  if (!fresh.ok()) DropLink(fresh.status());
  return fresh.ok() && *fresh;
}

void SessionMachine::On(const BadMessage& event) {
  if (!dialled_ || event.link != link_) return;
  if (!link_up_) return DropLink(event.status);
  if (event.seq != 0 && !Hear(event.seq)) return;
  Refuse(event.key, event.status);
}

void SessionMachine::Refuse(const PhaseKey& key, absl::Status status) {
  Do(Note{LogLevel::kWarning, "refused: " + FormatError(status)});
  Tell(Refused{.key = key, .status = std::move(status)});
}

void SessionMachine::Tell(AgentSays message) {
  if (!session_) return;
  const absl::StatusOr<uint64_t> seq = control_.Keep(message);
  if (!seq.ok()) {
    control_full_ = seq.status();
  } else if (link_up_) {
    Do(Say{.message = std::move(message), .seq = *seq});
  }
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

void SessionMachine::On(const ShutdownAsked& event) {
  if (exit_by_ != kNever) {
    exit_by_ = now_;  // asked twice: at once
    return;
  }
  Do(Note{LogLevel::kInfo, "ending: " + event.why});
  exit_wanted_ = true;
  exit_by_ = now_ + options_.deadlines.shutdown;
  if (session_) {
    return EndSession(MakeError(
        absl::StatusCode::kCancelled,
        {.code = "AGENT_ENDING", .place = "agent " + options_.hello.agent_id, .message = event.why, .next = ""}));
  }
  LinkOver();
  leaving_ = true;
  Leave();
}

}  // namespace muster::agent
