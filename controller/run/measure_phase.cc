#include "controller/run/measure_phase.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/status.h"
#include "common/plan/layout.h"
#include "controller/aggregate/lost_figures.h"

namespace muster {

std::vector<IoPhase::Part> MeasurePhase::Participants(RunContext& ctx) {
  std::vector<FleetAgent*> there;
  for (FleetAgent& agent : ctx.agents) {
    if (agent.live) there.push_back(&agent);
  }
  const auto dealt = DealInitiators(step_.initiators, static_cast<uint32_t>(there.size()));
  std::vector<Part> parts;
  for (size_t i = 0; i < dealt.size() && i < there.size(); ++i) {
    if (dealt[i].empty()) continue;
    Part part;
    part.agent = there[i];
    part.spec.target = step_.target;
    part.spec.objects = step_.objects;
    part.spec.initiators = dealt[i];
    part.spec.initiator_count = step_.initiators;
    part.spec.initiator_count_max = step_.initiators_max;
    part.spec.interval = ctx.plan.interval;
    part.spec.op_timeout = ctx.plan.op_timeout;
    part.spec.work = step_.measure;
    parts.push_back(std::move(part));
  }
  return parts;
}

// The others keep their initiators: what is measured is the fleet without those that were lost, not another fleet.
void MeasurePhase::OnFewer(RunContext& ctx) {
  std::vector<std::string> lost;
  for (const Part& part : parts_) {
    if (part.agent->live) continue;
    lost.push_back(part.agent->id);
    left_out_initiators_ += static_cast<uint32_t>(part.spec.initiators.size());
  }
  auto rows = LostRows(SealAttempt(), key().attempt, lost);
  if (rows.ok()) {
    lost_.insert(lost_.end(), rows->begin(), rows->end());
  } else {
    ctx.Complain(fmt::format("{}: no row for lost agents: {}", KeyText(key()), FormatError(rows.status())));
  }
  left_out_.insert(left_out_.end(), lost.begin(), lost.end());
  std::erase_if(parts_, [](const Part& part) { return !part.agent->live; });
  // Only now, when the lost ones have stopped, do the others take their share of a fleet's rate over.
  for (Part& part : parts_) part.spec.initiators_sharing = step_.initiators - left_out_initiators_;
}

void MeasurePhase::OnAttempt(RunContext& ctx) {
  PhaseShape shape;
  for (const Part& part : parts_) shape.agents[part.agent->id] = part.spec.initiators;
  shape.interval = ctx.plan.interval;
  shape.warmup_intervals = step_.measure.warmup_intervals;
  shape.window_intervals = step_.measure.window_intervals;
  shape.workload = step_.measure.workload;
  aggregator_ = std::make_unique<PhaseAggregator>(std::move(shape));
  sealed_.reset();
  last_interval_ = int64_t{step_.measure.warmup_intervals} + step_.measure.window_intervals - 1;
}

absl::Status MeasurePhase::OnInterval(RunContext& ctx, Part& part, const IntervalDelta& delta) {
  aggregator_->WantDetail(ctx.live_detail);
  MUSTER_RETURN_IF_ERROR(aggregator_->Add(part.agent->id, delta));
  WriteComplete(ctx);
  ShowLive(ctx);
  return absl::OkStatus();
}

absl::Status MeasurePhase::OnHeld(Part& part, const HeldHistograms& held) {
  return aggregator_->AddHeld(part.agent->id, held);
}

void MeasurePhase::WriteComplete(RunContext& ctx) {
  for (FleetInterval& interval : aggregator_->TakeComplete()) {
    if (ctx.store_ok()) ctx.actions.emplace_back(WriteIntervalAction{key(), std::move(interval)});
  }
}

void MeasurePhase::ShowLive(RunContext& ctx) {
  const Nanos since = ctx.now - shown_;
  if (since < ctx.options.live_period) return;
  std::optional<LiveFigures> live = aggregator_->Live();
  // The first report of an interval brings no new figures of the fleet: showing the old ones again would hold back the
  // new ones, which the last report brings a moment later. Only a fleet that stalls is shown again as it is.
  if (!live || (live->interval == shown_interval_ && since < 2 * step_interval_ + ctx.options.live_period)) return;
  shown_ = ctx.now;
  shown_interval_ = live->interval;
  for (AgentLive& line : live->agents) {
    for (const Part& part : parts_) {
      if (part.agent->id == line.agent && part.silent) line.silent = live->provisional = true;
    }
  }
  ctx.actions.emplace_back(LiveAction{step_.index, std::move(*live)});
}

absl::Status MeasurePhase::OnTotals(RunContext& ctx, Part& part, const PhaseEnded& ended) {
  MUSTER_RETURN_IF_ERROR(aggregator_->AddTotals(part.agent->id, ended.totals));
  if (!ended.status.ok() || stopped()) return absl::OkStatus();
  if (ended.totals.overloaded) {
    Blame(EndCause::kOverload, absl::OkStatus());
    EndEarly(ctx, /*now=*/false);
  } else if (ended.totals.last_interval < last_interval_) {
    Fail(ctx, MakeError(absl::StatusCode::kInternal,
                        {.code = "PHASE_ENDED_EARLY",
                         .place = "agent " + part.agent->id,
                         .message = fmt::format("the phase ended after interval {} of {} without being told to",
                                                ended.totals.last_interval, last_interval_),
                         .next = "Its lease may have ended; look at the agent's log."}));
  }
  return absl::OkStatus();
}

absl::Status MeasurePhase::OnLateTotals(Part& part, const PhaseEnded& ended) {
  return aggregator_->AddTotals(part.agent->id, ended.totals);
}

void MeasurePhase::OnGivenUp(Part& part) {
  aggregator_->Lose(part.agent->id);
}

Nanos MeasurePhase::RunDeadline(const RunContext& ctx, const Part& part) const {
  Nanos at = EndAt() + DrainWait(ctx) + Grace(ctx);
  if (part.next_interval <= last_interval_ && !part.over()) {
    const Nanos silent = EdgeAfter(part.next_interval) + Grace(ctx);
    at = std::min(at, part.silent ? silent + ctx.plan.op_timeout : silent);
  }
  // Reports wait for the store, not for the agent: look again soon, the store has its own deadline.
  if (ctx.StoreBehind()) at = std::max(at, ctx.now + ctx.options.live_period);
  return at;
}

void MeasurePhase::CheckRunning(RunContext& ctx, Part& part) {
  if (ctx.StoreBehind()) return;
  const std::string& id = part.agent->id;
  if (ctx.now >= EndAt() + DrainWait(ctx) + Grace(ctx)) {
    GiveUp(ctx, part,
           MakeError(absl::StatusCode::kDeadlineExceeded,
                     {.code = "DRAIN_TIMEOUT",
                      .place = "agent " + id,
                      .message = fmt::format("no totals within {} after the last interval's end",
                                             FormatDuration(DrainWait(ctx) + Grace(ctx))),
                      .next = "Look at the agent's log; its operations may hang."}));
    return;
  }
  if (part.next_interval > last_interval_) return;
  const Nanos silent = EdgeAfter(part.next_interval) + Grace(ctx);
  if (ctx.now >= silent + ctx.plan.op_timeout) {
    GiveUp(ctx, part,
           MakeError(absl::StatusCode::kDeadlineExceeded,
                     {.code = "AGENT_SILENT",
                      .place = "agent " + id,
                      .message = fmt::format("interval {} did not come within the op timeout ({})", part.next_interval,
                                             FormatDuration(ctx.plan.op_timeout)),
                      .next = "Look at the agent's log."}));
  } else if (ctx.now >= silent && !part.silent) {
    part.silent = true;
    ctx.Tell(fmt::format("agent {} is silent: interval {} is missing; live figures go on without it", id,
                         part.next_interval));
  }
}

const StepFigures& MeasurePhase::SealAttempt() {
  if (sealed_) return *sealed_;
  int64_t last = last_interval_;
  for (const Part& part : parts_) {
    if (part.ended) last = std::min(last, part.ended->totals.last_interval);
  }
  sealed_ = aggregator_->Seal(last);
  return *sealed_;
}

StepFigures MeasurePhase::Seal(RunContext& ctx) {
  StepFigures figures = SealAttempt();
  figures.lost = std::move(lost_);
  figures.left_out = left_out_;
  figures.left_out_initiators = left_out_initiators_;
  figures.initiators_asked += left_out_initiators_;
  figures.restarts = restarts();
  for (const Part& part : parts_) {
    const FleetAgent& agent = *part.agent;
    if (agent.insecure_tcp) figures.insecure_agents.push_back(agent.id);
    if (!agent.other_build.empty()) figures.other_builds.push_back(agent.id + " is " + agent.other_build);
  }
  WriteComplete(ctx);
  return figures;
}

}  // namespace muster
