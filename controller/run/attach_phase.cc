#include "controller/run/attach_phase.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/base/status.h"
#include "controller/run/target_needs.h"

namespace muster {
void AttachPhase::Begin(RunContext& ctx) {
  key_ = ctx.Key(step_.index, PhaseKind::kAttach);
  TargetNeeds needs = NeedsOf(ctx.plan, step_.target);
  command_.objects = std::move(needs.objects);
  command_.writes = needs.writes;
  command_.min_block = needs.min_block;
  command_.key = key_;
  command_.target = ctx.TargetOf(step_);
  command_.deadline = ctx.options.deadlines.attach;
  const bool guarded = !std::holds_alternative<NullTarget>(command_.target.kind);
  std::set<std::string> hosts;
  for (FleetAgent& agent : ctx.agents) {
    if (!agent.live) continue;
    // An agent that does not name its host is a host of its own.
    // What is reached over the network is the same from every host: one guard for all.
    const std::string host = IsRemote(command_.target) ? ""
                             : agent.host_id.empty()   ? "agent " + agent.id
                                                       : agent.host_id;
    parts_.push_back({.agent = &agent, .guard = guarded && hosts.insert(host).second});
  }
  for (Part& part : parts_) {
    if (part.guard || !guarded) Ask(ctx, part, 0);
  }
}

void AttachPhase::Ask(RunContext& ctx, Part& part, uint64_t generation) {
  AttachCommand command = command_;
  command.guard = part.guard;
  command.generation = generation;
  part.stage = Stage::kAsked;
  part.deadline = ctx.now + command.deadline + ctx.options.deadlines.answer_slack;
  part.agent->attached = true;
  const auto* file = std::get_if<FileTarget>(&command.target.kind);
  if (file != nullptr && part.guard && command.writes && !file->keep) part.agent->owns.insert(file->dir);
  ctx.Send(*part.agent, std::move(command));
}

void AttachPhase::Finish(EndCause cause, absl::Status status) {
  Blame(cause, std::move(status));
  done_ = true;
}

void AttachPhase::OnMessage(RunContext& ctx, FleetAgent& agent, const AgentSays& says) {
  const auto part = std::find_if(parts_.begin(), parts_.end(), [&](const Part& p) { return p.agent == &agent; });
  if (part == parts_.end()) return;
  const auto* answer = std::get_if<AttachDone>(&says);
  const auto* refused = std::get_if<Refused>(&says);
  const PhaseKey* key = answer ? &answer->key : refused ? &refused->key : nullptr;
  if (key == nullptr || *key != key_ || part->stage != Stage::kAsked) {
    if (key != nullptr)
      ctx.Complain(fmt::format("agent {}: answer for {} rejected, not asked for", agent.id, KeyText(*key)));
    return;
  }
  const absl::Status status = answer ? answer->status : refused->status;
  if (!status.ok()) {
    Finish(EndCause::kError, AtPlace(status, ctx.PlaceOf(step_, agent)));
    return;
  }
  part->stage = Stage::kDone;
  for (const auto& [name, value] : answer->evidence) {
    facts_.emplace_back(fmt::format("{}: {}: {}", agent.id, step_.target, name), value);
  }
  if (part->guard) {
    for (Part& other : parts_) {
      if (other.stage != Stage::kWaiting) continue;
      if (IsRemote(command_.target) || other.agent->host_id == agent.host_id) Ask(ctx, other, answer->generation);
    }
  }
  if (std::all_of(parts_.begin(), parts_.end(), [](const Part& p) { return p.stage == Stage::kDone; })) done_ = true;
}

absl::Status AttachPhase::OnReport(RunContext&, FleetAgent&, const AgentReport&) {
  return absl::OkStatus();
}

void AttachPhase::OnLost(RunContext& ctx, FleetAgent& agent) {
  const auto lost = std::find_if(parts_.begin(), parts_.end(), [&](const Part& p) { return p.agent == &agent; });
  if (done_ || lost == parts_.end()) return;
  if (!ctx.GoesOn()) {
    Finish(EndCause::kLoss, agent.lost);
    return;
  }
  const bool guarded = lost->guard && lost->stage != Stage::kDone;
  parts_.erase(lost);
  if (guarded) {
    // Somebody else looks at the target for those that wait for the answer.
    const auto heir = std::find_if(parts_.begin(), parts_.end(), [&](const Part& p) {
      return p.stage == Stage::kWaiting && (IsRemote(command_.target) || p.agent->host_id == agent.host_id);
    });
    if (heir != parts_.end()) {
      heir->guard = true;
      Ask(ctx, *heir, 0);
    }
  }
  if (std::all_of(parts_.begin(), parts_.end(), [](const Part& p) { return p.stage == Stage::kDone; })) done_ = true;
}

// An agent that is still attaching is told to detach next; it does so when its attach has ended.
void AttachPhase::OnCancel(RunContext&, int) {
  Finish(EndCause::kCancel, absl::OkStatus());
}

void AttachPhase::OnStoreFailed(RunContext& ctx) {
  Finish(EndCause::kStore, ctx.store_error);
}

void AttachPhase::OnTime(RunContext& ctx) {
  std::vector<FleetAgent*> late;  // a loss changes `parts_`
  for (Part& part : parts_) {
    if (done_ || part.stage != Stage::kAsked || ctx.now < part.deadline) continue;
    absl::Status why = MakeError(absl::StatusCode::kDeadlineExceeded,
                                 {.code = "ATTACH_TIMEOUT",
                                  .place = "agent " + part.agent->id,
                                  .message = fmt::format("no answer to Attach of target {} within {}", step_.target,
                                                         FormatDuration(command_.deadline)),
                                  .next = "Look at the agent's log; its target may hang."});
    ctx.Lose(*part.agent, why, /*drop=*/true);
    late.push_back(part.agent);
  }
  for (FleetAgent* agent : late) OnLost(ctx, *agent);
}

Nanos AttachPhase::Deadline(const RunContext& ctx) const {
  Nanos at = kNever;
  for (const Part& part : parts_) {
    if (part.stage == Stage::kAsked) at = std::min(at, part.deadline);
  }
  return at == kNever ? ctx.now : at;
}

}  // namespace muster
