#include "controller/run/detach_phase.h"

#include <fmt/format.h>

#include "common/base/status.h"

namespace muster {

namespace {

// Only the agent that made the files may remove them: with it gone they can stay, which must not go unsaid.
void TellLeftovers(RunContext& ctx, const FleetAgent& agent) {
  for (const std::string& dir : agent.owns) {
    ctx.Tell(fmt::format(
        "agent {} was lost before it removed its files: look for {}/muster-data{}; the next run there takes "
        "them over",
        agent.id, dir, agent.hostname.empty() ? "" : " on host " + agent.hostname));
  }
}

}  // namespace

void DetachPhase::Begin(RunContext& ctx) {
  key_ = ctx.Key(step_, PhaseKind::kDetach);
  deadline_ = ctx.now + ctx.options.deadlines.detach + ctx.options.deadlines.answer_slack;
  for (FleetAgent& agent : ctx.agents) {
    if (!agent.live) TellLeftovers(ctx, agent);
    if (!agent.live || !agent.attached) continue;
    waiting_.insert(&agent);
    ctx.Send(agent, DetachCommand{.key = key_, .all = true, .target = {}});
  }
  done_ = waiting_.empty();
}

void DetachPhase::OnMessage(RunContext& ctx, FleetAgent& agent, const AgentSays& says) {
  const auto* answer = std::get_if<DetachDone>(&says);
  const auto* refused = std::get_if<Refused>(&says);
  const PhaseKey* key = answer ? &answer->key : refused ? &refused->key : nullptr;
  // Late answers of the phase before are expected here and say nothing new.
  if (key == nullptr || *key != key_ || waiting_.erase(&agent) == 0) return;
  const absl::Status& status = answer ? answer->status : refused->status;
  if (!status.ok()) ctx.Tell(fmt::format("agent {} could not detach: {}", agent.id, FormatError(status)));
  done_ = waiting_.empty();
}

absl::Status DetachPhase::OnReport(RunContext&, FleetAgent&, const AgentReport&) {
  return absl::OkStatus();
}

void DetachPhase::OnLost(RunContext& ctx, FleetAgent& agent) {
  if (waiting_.contains(&agent)) TellLeftovers(ctx, agent);
  waiting_.erase(&agent);
  done_ = waiting_.empty();
}

void DetachPhase::OnTime(RunContext& ctx) {
  if (done_ || ctx.now < deadline_) return;
  for (FleetAgent* agent : waiting_) {
    ctx.Lose(*agent,
             MakeError(
                 absl::StatusCode::kDeadlineExceeded,
                 {.code = "DETACH_TIMEOUT",
                  .place = "agent " + agent->id,
                  .message = fmt::format("no answer to Detach within {}", FormatDuration(ctx.options.deadlines.detach)),
                  .next = "Look at the agent's log; files of the run may be left on its host."}),
             /*drop=*/true);
    TellLeftovers(ctx, *agent);
  }
  waiting_.clear();
  done_ = true;
}

}  // namespace muster
