#include "controller/run/fill_phase.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "common/base/status.h"
#include "common/plan/layout.h"

namespace muster {

std::vector<IoPhase::Part> FillPhase::Participants(RunContext& ctx) {
  std::map<std::string, std::vector<FleetAgent*>> hosts;
  for (FleetAgent& agent : ctx.agents) {
    // Files and devices are a host's own; what is reached over the network is filled once, by all together.
    const std::string host = IsRemote(ctx.TargetOf(step_)) ? ""
                             : agent.host_id.empty()       ? "agent " + agent.id
                                                           : agent.host_id;
    hosts[host].push_back(&agent);
  }
  std::vector<Part> parts;
  for (auto& [host, agents] : hosts) {
    const auto dealt = DealFill(step_.objects, step_.fill.block, static_cast<uint32_t>(agents.size()));
    for (size_t i = 0; i < dealt.size() && i < agents.size(); ++i) {
      if (dealt[i].empty()) continue;
      Part part;
      part.agent = agents[i];
      part.spec.target = step_.target;
      part.spec.objects = step_.objects;
      part.spec.initiator_count = step_.initiators;
      part.spec.initiator_count_max = step_.initiators_max;
      part.spec.interval = ctx.plan.interval;
      part.spec.op_timeout = ctx.plan.op_timeout;
      FillSpec fill = step_.fill;
      fill.passes = step_.fill_passes;
      fill.extents = dealt[i];
      for (const FillExtent& extent : fill.extents) part.bytes_asked += extent.length * fill.passes;
      part.spec.work = std::move(fill);
      parts.push_back(std::move(part));
    }
  }
  return parts;
}

void FillPhase::OnAttempt(RunContext&) {
  written_ = 0;
  // No last interval by plan; far enough for any fill, near enough for exact arithmetic.
  last_interval_ = 10'000'000;
}

void FillPhase::OnFillReport(RunContext& ctx, Part& part, const FillReport& progress) {
  if (progress.bytes_done > part.bytes_done) {
    part.bytes_done = std::min(progress.bytes_done, part.bytes_asked);
    part.heard = ctx.now;
  }
  if (ctx.now - shown_ < ctx.options.live_period) return;
  shown_ = ctx.now;
  FillProgress shown;
  for (const Part& p : parts_) {
    shown.bytes_done += p.bytes_done;
    shown.bytes_total += p.bytes_asked;
  }
  const Nanos elapsed = ctx.now - t0_;
  if (elapsed > 0 && shown.bytes_done > 0) {
    shown.bytes_per_second = static_cast<double>(shown.bytes_done) * 1e9 / static_cast<double>(elapsed);
    shown.eta =
        static_cast<Nanos>(static_cast<double>(shown.bytes_total - shown.bytes_done) * 1e9 / shown.bytes_per_second);
  }
  ctx.actions.emplace_back(FillProgressAction{shown});
}

absl::Status FillPhase::OnTotals(RunContext& ctx, Part& part, const PhaseEnded& ended) {
  uint64_t bytes = 0;
  for (const InitiatorTotals& initiator : ended.totals.initiators) {
    bytes += initiator.kinds[static_cast<size_t>(OpKind::kWrite)].bytes;
  }
  written_ += bytes;
  ended_at_ = ctx.now;
  if (ended.status.ok() && !stopped() && bytes != part.bytes_asked) {
    Fail(ctx, MakeError(absl::StatusCode::kDataLoss,
                        {.code = "FILL_INCOMPLETE",
                         .place = fmt::format("agent {} target {}", part.agent->id, step_.target),
                         .message = fmt::format("wrote {} of {} bytes", bytes, part.bytes_asked),
                         .next = "Measuring on it would read blocks that were never written."}));
  }
  return absl::OkStatus();
}

Nanos FillPhase::RunDeadline(const RunContext& ctx, const Part& part) const {
  // The agent itself ends a fill that makes no progress, then drains: only one that does not even do that is given up.
  return std::max(part.heard, t0_) + NoProgress(ctx) + DrainWait(ctx) + Grace(ctx);
}

void FillPhase::CheckRunning(RunContext& ctx, Part& part) {
  if (ctx.now < RunDeadline(ctx, part)) return;
  GiveUp(ctx, part,
         MakeError(absl::StatusCode::kDeadlineExceeded,
                   {.code = "FILL_STALLED",
                    .place = fmt::format("agent {} target {}", part.agent->id, step_.target),
                    .message = fmt::format("no progress for {} after {} of {} bytes, and no end",
                                           FormatDuration(ctx.now - std::max(part.heard, t0_)), part.bytes_done,
                                           part.bytes_asked),
                    .next = "The target may hang."}));
}

Nanos FillPhase::Elapsed() const {
  return std::max<Nanos>(0, ended_at_ - FirstIoAt());
}

}  // namespace muster
