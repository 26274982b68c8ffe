#include "controller/run/io_phase.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/status.h"

namespace muster {
namespace {

absl::Status Late(const FleetAgent& agent, std::string code, std::string message) {
  return MakeError(absl::StatusCode::kDeadlineExceeded, {.code = std::move(code),
                                                         .place = "agent " + agent.id,
                                                         .message = std::move(message),
                                                         .next = "Look at the agent's log."});
}

const PhaseKey* KeyOf(const AgentSays& says) {
  if (const auto* m = std::get_if<PrepareDone>(&says)) return &m->key;
  if (const auto* m = std::get_if<StartDone>(&says)) return &m->key;
  if (const auto* m = std::get_if<FirstIo>(&says)) return &m->key;
  if (const auto* m = std::get_if<FillReport>(&says)) return &m->key;
  if (const auto* m = std::get_if<Refused>(&says)) return &m->key;
  if (const auto* m = std::get_if<AttachDone>(&says)) return &m->key;
  if (const auto* m = std::get_if<DetachDone>(&says)) return &m->key;
  return nullptr;
}

}  // namespace

void IoPhase::Begin(RunContext& ctx) {
  step_interval_ = ctx.plan.interval;
  attempt_ = step_.first_attempt;
  parts_ = Participants(ctx);
  key_ = ctx.Key(step_.index, kind_, attempt_);
  if (ctx.quiet_at > ctx.now) {
    OnAttempt(ctx);  // it may end before it is asked for
    AwaitQuiet(ctx);
  } else {
    Ask(ctx);
  }
}

IoPhase::Part* IoPhase::Find(const FleetAgent& agent) {
  const auto found = std::find_if(parts_.begin(), parts_.end(), [&](const Part& p) { return p.agent == &agent; });
  return found == parts_.end() ? nullptr : &*found;
}

void IoPhase::Ask(RunContext& ctx) {
  if (std::exchange(fewer_, false)) OnFewer(ctx);
  if (parts_.empty() && !ctx.first_loss.ok()) {
    Blame(EndCause::kLoss, ctx.first_loss);
    Settle();
    Advance(ctx);
    return;
  }
  key_ = ctx.Key(step_.index, kind_, attempt_);
  state_ = State::kPreparing;
  stopped_now_at_ = kNever;
  deadline_ = ctx.now + NoProgress(ctx) + ctx.options.deadlines.answer_slack;
  OnAttempt(ctx);
  for (Part& part : parts_) {
    part.spec.key = key_;
    part.stage = Stage::kAsked;
    part.next_interval = 0;
    part.bytes_done = part.written = 0;
    part.silent = false;
    part.prepared.reset();
    part.start.reset();
    part.first_io.reset();
    part.ended.reset();
    ctx.Send(*part.agent, PrepareCommand{.spec = part.spec, .deadline = NoProgress(ctx)});
  }
  Advance(ctx);
}

void IoPhase::Arm(RunContext& ctx) {
  t0_ = ctx.now + ctx.StartLead();
  state_ = State::kStarting;
  deadline_ = ctx.now + ctx.options.deadlines.prepared_to_start;
  for (Part& part : parts_) {
    if (part.stage != Stage::kPrepared) continue;
    part.heard = t0_;
    ctx.Send(*part.agent, StartCommand{.key = key_, .t0_fleet = t0_});
  }
}

void IoPhase::Undo(RunContext& ctx) {
  if (state_ == State::kUndoing) return;
  state_ = State::kUndoing;
  deadline_ = ctx.now + DrainWait(ctx);
  for (Part& part : parts_) {
    if (!part.over()) ctx.Send(*part.agent, StopCommand{.key = key_, .now = true, .after_interval = 0});
  }
}

void IoPhase::Repeat(RunContext& ctx) {
  ctx.actions.emplace_back(SealPhaseAction{key_});
  ++attempt_;
  AwaitQuiet(ctx);
}

void IoPhase::AwaitQuiet(RunContext& ctx) {
  state_ = State::kQuiet;
  deadline_ = std::max(ctx.now, ctx.quiet_at);
  if (deadline_ > ctx.now) {
    ctx.Tell(fmt::format("{}: a lost agent may load its target for up to {} more; {} then", KeyText(key_),
                         FormatDuration((deadline_ - ctx.now + kSecond - 1) / kSecond * kSecond),
                         attempt_ > step_.first_attempt ? "it begins anew" : "it begins"));
  }
}

int64_t IoPhase::CurrentInterval(const RunContext& ctx) const {
  return ctx.now < t0_ ? 0 : (ctx.now - t0_) / step_interval_;
}

void IoPhase::StopAll(RunContext& ctx, bool now) {
  if (stopped_now_at_ != kNever || (!now && state_ == State::kEnding)) return;
  const int64_t after = CurrentInterval(ctx) + 1;
  // A phase that is to end by then anyway needs no message.
  if (!now && after >= last_interval_) return;
  if (now) stopped_now_at_ = ctx.now;
  state_ = State::kEnding;
  last_interval_ = std::min(last_interval_, after);
  for (Part& part : parts_) {
    part.heard = std::max(part.heard, ctx.now);
    if (part.over()) continue;
    ctx.Send(*part.agent, StopCommand{.key = key_, .now = now, .after_interval = now ? 0 : after});
  }
}

void IoPhase::EndEarly(RunContext& ctx, bool now) {
  switch (state_) {
    case State::kPreparing:
    case State::kStarting:
      Undo(ctx);
      break;
    case State::kRunning:
    case State::kEnding:
      StopAll(ctx, now);
      break;
    case State::kQuiet:
      Settle();
      break;
    case State::kUndoing:
    case State::kCommitting:
    case State::kDone:
      break;
  }
}

void IoPhase::Fail(RunContext& ctx, absl::Status status) {
  Blame(EndCause::kError, std::move(status));
  EndEarly(ctx, /*now=*/true);
}

void IoPhase::GiveUp(RunContext& ctx, Part& part, absl::Status why) {
  if (part.stage == Stage::kLost) return;
  ctx.Lose(*part.agent, std::move(why), /*drop=*/true);
  OnLost(ctx, *part.agent);
}

void IoPhase::OnLost(RunContext& ctx, FleetAgent& agent) {
  Part* part = Find(agent);
  if (part == nullptr) return;  // it carries nothing here: what that means for the run is decided after the step
  if (state_ == State::kQuiet || (state_ == State::kUndoing && cause() == EndCause::kNone)) fewer_ = true;
  // What it was to deliver is there: the figures need it no more.
  if (part->stage == Stage::kEnded || part->stage == Stage::kLost) return;
  part->stage = Stage::kLost;
  OnGivenUp(*part);
  if (state_ != State::kPreparing && state_ != State::kQuiet) {
    ctx.quiet_at = std::max(ctx.quiet_at, ctx.now + OrphanTime(ctx, agent));
  }
  const bool measured = state_ == State::kRunning && RestartsOnLoss();
  if (cause() == EndCause::kNone && ctx.GoesOn() && !(measured && restarts_ >= kMaxRestarts)) {
    fewer_ = true;
    facts_.emplace_back(fmt::format("{}: lost in {}", agent.id, KeyText(key_)),
                        fmt::format("initiators {}; intervals delivered {}; {}", fmt::join(part->spec.initiators, ", "),
                                    part->next_interval, GetErrorInfo(agent.lost).code));
    if (measured) ++restarts_;
    if (state_ != State::kQuiet && (state_ != State::kRunning || measured)) Undo(ctx);
  } else {
    Blame(EndCause::kLoss, agent.lost);
    EndEarly(ctx, /*now=*/false);
  }
  Advance(ctx);
}

void IoPhase::OnCancel(RunContext& ctx, int level) {
  // What ends within the next interval anyway is measured whole; the run ends after it.
  const bool over = state_ == State::kCommitting || state_ == State::kDone ||
                    (state_ == State::kRunning && level < 2 && CurrentInterval(ctx) + 1 >= last_interval_);
  if (over) return;
  Blame(EndCause::kCancel, absl::OkStatus());
  EndEarly(ctx, level >= 2);
  Advance(ctx);
}

void IoPhase::OnStoreFailed(RunContext& ctx) {
  Blame(EndCause::kStore, ctx.store_error);
  EndEarly(ctx, /*now=*/true);
  Advance(ctx);
}

void IoPhase::OnMessage(RunContext& ctx, FleetAgent& agent, const AgentSays& says) {
  const PhaseKey* key = KeyOf(says);
  if (key == nullptr) return;
  Part* part = Find(agent);
  if (*key != key_ || part == nullptr) {
    // Late words on an attempt that was undone are expected.
    const bool undone = key->step == key_.step && key->phase == key_.phase && key->attempt < key_.attempt;
    if (!undone) ctx.Complain(fmt::format("agent {}: stale message for {} rejected", agent.id, KeyText(*key)));
    return;
  }
  if (const auto* m = std::get_if<PrepareDone>(&says)) OnPrepared(ctx, *part, *m);
  if (const auto* m = std::get_if<StartDone>(&says)) OnStarted(ctx, *part, *m);
  if (const auto* m = std::get_if<FirstIo>(&says)) {
    if (!part->first_io) part->first_io = *m;
  }
  if (const auto* m = std::get_if<FillReport>(&says)) OnFillReport(ctx, *part, *m);
  if (const auto* m = std::get_if<Refused>(&says)) OnRefused(ctx, *part, *m);
  Advance(ctx);
}

void IoPhase::OnPrepared(RunContext& ctx, Part& part, const PrepareDone& done) {
  if (part.stage != Stage::kAsked) {
    ctx.Complain(fmt::format("agent {}: second PrepareDone for {} rejected", part.agent->id, KeyText(key_)));
    return;
  }
  part.prepared = done;
  if (done.status.ok()) {
    part.stage = Stage::kPrepared;
    return;
  }
  part.stage = Stage::kFailed;
  // While undoing, "stopped before it was prepared" is what was asked for.
  if (state_ == State::kPreparing) Fail(ctx, AtPlace(done.status, ctx.PlaceOf(step_, *part.agent)));
}

void IoPhase::OnStarted(RunContext& ctx, Part& part, const StartDone& done) {
  if (part.start || part.stage < Stage::kPrepared) {
    ctx.Complain(fmt::format("agent {}: StartDone for {} rejected, not asked for", part.agent->id, KeyText(key_)));
    return;
  }
  part.start = done;
  if (part.stage == Stage::kPrepared) part.stage = done.missed ? Stage::kMissed : Stage::kArmed;
  const Nanos apart = done.local_t0 + done.offset - t0_;
  if (!done.missed && (apart > 1 || apart < -1)) {
    ctx.Complain(fmt::format("agent {}: its start instant is {} ns from the one named", part.agent->id, apart));
  }
}

void IoPhase::OnRefused(RunContext& ctx, Part& part, const Refused& refused) {
  if (state_ == State::kUndoing) {
    // It holds nothing of this attempt. One that was prepared owes its totals all the same: they may be under way on
    // the other stream while this one says that there is nothing to stop any more.
    if (part.stage == Stage::kAsked || part.stage == Stage::kMissed) part.stage = Stage::kFailed;
    return;
  }
  if (state_ == State::kPreparing || state_ == State::kStarting) {
    part.stage = Stage::kFailed;
    Fail(ctx, AtPlace(refused.status, ctx.PlaceOf(step_, *part.agent)));
    return;
  }
  ctx.Complain(
      fmt::format("agent {} refused a command for {}: {}", part.agent->id, KeyText(key_), FormatError(refused.status)));
}

absl::Status IoPhase::OnReport(RunContext& ctx, FleetAgent& agent, const AgentReport& report) {
  Part* part = Find(agent);
  if (report.key != key_ || part == nullptr) {
    const bool undone =
        report.key.step == key_.step && report.key.phase == key_.phase && report.key.attempt < key_.attempt;
    if (!undone)
      ctx.Complain(fmt::format("agent {}: report for {} is stale, not merged", agent.id, KeyText(report.key)));
    return absl::OkStatus();
  }
  // It refused a command because it had ended by itself: how is said on this stream, after that on the other.
  if (part->stage == Stage::kFailed && !part->ended) {
    const auto* ended = std::get_if<PhaseEnded>(&report.body);
    if (ended == nullptr) return MergeLate(ctx, *part, report);
    part->ended = *ended;
    (void)MergeLate(ctx, *part, report);  // totals that cannot be used are as good as none here
    return absl::OkStatus();
  }
  if (part->over()) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     {.code = "REPORT_AFTER_END",
                      .place = "agent " + agent.id,
                      .message = fmt::format("report {} belongs to {}, which this agent has ended", report.sequence,
                                             KeyText(key_))});
  }
  if (const auto* delta = std::get_if<IntervalDelta>(&report.body)) {
    MUSTER_RETURN_IF_ERROR(OnInterval(ctx, *part, *delta));
    if (!delta->drain) part->next_interval = std::max(part->next_interval, delta->interval + 1);
    if (part->silent) ctx.Tell(fmt::format("agent {} delivers again, interval {}", agent.id, delta->interval));
    part->silent = false;
  } else if (const auto* held = std::get_if<HeldHistograms>(&report.body)) {
    MUSTER_RETURN_IF_ERROR(OnHeld(*part, *held));
  } else {
    const auto& ended = std::get<PhaseEnded>(report.body);
    if (ended.totals.last_sequence > report.sequence) {
      return MakeError(absl::StatusCode::kDataLoss,
                       {.code = "REPORT_MISSING",
                        .place = "agent " + agent.id,
                        .message = fmt::format("the last report of {} is {}, but its totals name {}", KeyText(key_),
                                               report.sequence, ended.totals.last_sequence)});
    }
    MUSTER_RETURN_IF_ERROR(OnTotals(ctx, *part, ended));
    part->ended = ended;
    const bool undoing = state_ == State::kUndoing;
    part->stage = ended.status.ok() || undoing ? Stage::kEnded : Stage::kFailed;
    if (!ended.status.ok() && !undoing) Fail(ctx, AtPlace(ended.status, ctx.PlaceOf(step_, agent)));
  }
  Advance(ctx);
  return absl::OkStatus();
}

absl::Status IoPhase::OnLateReport(RunContext& ctx, FleetAgent& agent, const AgentReport& report) {
  Part* part = Find(agent);
  if (report.key != key_ || part == nullptr || part->stage != Stage::kLost) {
    return absl::FailedPreconditionError("it belongs to another phase");
  }
  return MergeLate(ctx, *part, report);
}

// Figures alone: it decides nothing any more.
absl::Status IoPhase::MergeLate(RunContext& ctx, Part& part, const AgentReport& report) {
  if (const auto* delta = std::get_if<IntervalDelta>(&report.body)) return OnInterval(ctx, part, *delta);
  if (const auto* held = std::get_if<HeldHistograms>(&report.body)) return OnHeld(part, *held);
  const auto& ended = std::get<PhaseEnded>(report.body);
  const std::string code = GetErrorInfo(ended.status).code;
  if (code == "REPORT_LOG_FULL" || code == "REPORTS_LOST") return ended.status;  // its totals are of more than came
  return OnLateTotals(part, ended);
}

void IoPhase::Advance(RunContext& ctx) {
  const auto none = [&](auto condition) { return std::none_of(parts_.begin(), parts_.end(), condition); };
  // Each pass leaves one state; states only go forward within an attempt and attempts are bounded.
  for (int pass = 0; pass < 8; ++pass) {
    switch (state_) {
      case State::kPreparing:
        if (!none([](const Part& p) { return p.stage == Stage::kAsked; })) return;
        Arm(ctx);
        break;
      case State::kStarting:
        if (!none([](const Part& p) { return p.stage == Stage::kPrepared; })) return;
        if (none([](const Part& p) { return p.stage == Stage::kMissed; })) {
          state_ = State::kRunning;
          started_ = true;
          missed_ = 0;
        } else {
          if (missed_++ >= ctx.options.max_repeats) {
            Blame(EndCause::kError,
                  MakeError(
                      absl::StatusCode::kDeadlineExceeded,
                      {.code = "START_MISSED",
                       .place = KeyText(key_),
                       .message = fmt::format("the start instant had passed on an agent {} times in a row", missed_),
                       .next = "The agents' hosts are overloaded or the network is slow."}));
          } else {
            ctx.Tell(fmt::format("start missed in {}, the barrier is repeated", KeyText(key_)));
          }
          Undo(ctx);
        }
        break;
      case State::kRunning:
      case State::kEnding:
        if (!none([](const Part& p) { return !p.over(); })) return;
        if (cause() == EndCause::kNone && fewer_ && LeftUndone(ctx)) {
          Repeat(ctx);
        } else {
          Settle();
        }
        break;
      case State::kUndoing:
        if (!none([](const Part& p) { return !p.over(); })) return;
        if (cause() == EndCause::kNone) {
          Repeat(ctx);
        } else {
          Settle();
        }
        break;
      case State::kQuiet:
        if (ctx.now < ctx.quiet_at) return;
        Ask(ctx);
        return;
      case State::kCommitting:
        if (!ctx.AllCommitted()) return;
        state_ = State::kDone;
        done_ = true;
        break;
      case State::kDone:
        return;
    }
  }
}

void IoPhase::Settle() {
  state_ = State::kCommitting;
  deadline_ = kNever;  // the store's own deadline holds here: RunMachine declares it failed
  for (const Part& part : parts_) {
    const std::string& id = part.agent->id;
    const auto add = [&](std::string_view name, std::string value) {
      facts_.emplace_back(fmt::format("{}: {} {}", id, PhaseKindName(kind_), name), std::move(value));
    };
    if (part.prepared && part.prepared->status.ok()) {
      add("memory", FormatBytesHuman(static_cast<double>(part.prepared->memory_bytes)));
      for (const auto& [name, value] : part.prepared->facts) add(name, value);
    }
    if (part.start) add("clock at start", fmt::format("{} ns +- {} ns", part.start->offset, part.start->error));
    if (part.ended && part.start) {
      add("clock at end", fmt::format("{} ns +- {} ns", part.ended->offset_at_end, part.ended->error_at_end));
      add("clock drift", fmt::format("{} ns", part.ended->offset_at_end - part.ended->offset_at_start));
    }
    if (part.first_io) {
      add("first I/O after start", fmt::format("{} ns", part.first_io->fleet - t0_));
      add("wake-up lateness", fmt::format("{} ns", part.first_io->wake_lateness));
    }
  }
}

void IoPhase::OnTime(RunContext& ctx) {
  const bool running = state_ == State::kRunning || state_ == State::kEnding;
  for (Part& part : parts_) {
    if (running && !part.over() && part.agent->live) CheckRunning(ctx, part);
  }
  if (!running && ctx.now >= deadline_) {
    const std::string within = FormatDuration(state_ == State::kStarting    ? ctx.options.deadlines.prepared_to_start
                                              : state_ == State::kPreparing ? NoProgress(ctx)
                                                                            : DrainWait(ctx));
    const State late_in = state_;
    for (Part& part : parts_) {
      if (late_in == State::kPreparing && part.stage == Stage::kAsked) {
        GiveUp(ctx, part, Late(*part.agent, "PREPARE_TIMEOUT", "no answer to Prepare within " + within));
      } else if (late_in == State::kStarting && part.stage == Stage::kPrepared) {
        GiveUp(ctx, part, Late(*part.agent, "START_TIMEOUT", "no answer to Start within " + within));
      } else if (late_in == State::kUndoing && !part.over()) {
        GiveUp(ctx, part, Late(*part.agent, "DRAIN_TIMEOUT", "the phase did not end within " + within));
      }
    }
  }
  Advance(ctx);
}

Nanos IoPhase::Deadline(const RunContext& ctx) const {
  if (state_ != State::kRunning && state_ != State::kEnding) return deadline_;
  Nanos at = kNever;
  for (const Part& part : parts_) {
    if (!part.over()) at = std::min(at, RunDeadline(ctx, part));
  }
  return at;
}

Nanos IoPhase::FirstIoAt() const {
  Nanos first = kNever;
  for (const Part& part : parts_) {
    if (part.first_io) first = std::min(first, part.first_io->fleet);
  }
  return first == kNever ? t0_ : first;
}

Nanos IoPhase::StartSkew() const {
  Nanos first = kNever, last = -kNever;
  for (const Part& part : parts_) {
    if (!part.first_io) continue;
    first = std::min(first, part.first_io->fleet);
    last = std::max(last, part.first_io->fleet);
  }
  return last > first ? last - first : 0;
}

Nanos IoPhase::ClockError() const {
  Nanos worst = 0;
  for (const Part& part : parts_) {
    if (part.start) worst = std::max(worst, part.start->error);
    if (part.ended) worst = std::max({worst, part.ended->error_at_start, part.ended->error_at_end});
  }
  return worst;
}

}  // namespace muster
