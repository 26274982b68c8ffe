#include "controller/run/fill_phase.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "common/base/status.h"
#include "common/plan/layout.h"

namespace muster {

// Files and devices are a host's own; what is reached over the network is filled once, by all together.
std::string FillPhase::HostOf(const RunContext& ctx, const FleetAgent& agent) const {
  if (IsRemote(ctx.TargetOf(step_))) return "";
  return agent.host_id.empty() ? "agent " + agent.id : agent.host_id;
}

IoPhase::Part FillPhase::PartOf(const RunContext& ctx, FleetAgent& agent, std::vector<FillExtent> extents) const {
  Part part;
  part.agent = &agent;
  part.spec.target = step_.target;
  part.spec.objects = step_.objects;
  part.spec.initiator_count = step_.initiators;
  part.spec.initiator_count_max = step_.initiators_max;
  part.spec.interval = ctx.plan.interval;
  part.spec.op_timeout = ctx.plan.op_timeout;
  FillSpec fill = step_.fill;
  fill.passes = step_.fill_passes;
  fill.extents = std::move(extents);
  for (const FillExtent& extent : fill.extents) part.bytes_asked += extent.length * fill.passes;
  part.spec.work = std::move(fill);
  return part;
}

std::vector<IoPhase::Part> FillPhase::Participants(RunContext& ctx) {
  std::map<std::string, std::vector<FleetAgent*>> hosts;
  for (FleetAgent& agent : ctx.agents) {
    if (agent.live) hosts[HostOf(ctx, agent)].push_back(&agent);
  }
  std::vector<Part> parts;
  for (auto& [host, agents] : hosts) {
    auto dealt = DealFill(step_.objects, step_.fill.block, static_cast<uint32_t>(agents.size()));
    for (size_t i = 0; i < dealt.size() && i < agents.size(); ++i) {
      if (!dealt[i].empty()) parts.push_back(PartOf(ctx, *agents[i], std::move(dealt[i])));
    }
  }
  return parts;
}

// Whole shares change hands: what a lost agent wrote of its share is not known for sure, so all of it is written again.
void FillPhase::OnFewer(RunContext& ctx) {
  std::map<std::string, std::vector<FleetAgent*>> hosts;
  for (FleetAgent& agent : ctx.agents) {
    if (agent.live) hosts[HostOf(ctx, agent)].push_back(&agent);
  }
  std::map<FleetAgent*, std::vector<FillExtent>> shares;
  std::map<std::string, size_t> next;
  for (const Part& part : parts_) {
    if (Done(part)) continue;
    const std::string host = HostOf(ctx, *part.agent);
    const auto& there = hosts[host];
    // Nobody is left on that host: nobody will read what was not written there.
    if (there.empty()) continue;
    for (const FillExtent& extent : std::get<FillSpec>(part.spec.work).extents) {
      FleetAgent* taker = part.agent->live ? part.agent : there[next[host]++ % there.size()];
      shares[taker].push_back(extent);
    }
  }
  parts_.clear();
  for (auto& [agent, extents] : shares) parts_.push_back(PartOf(ctx, *agent, std::move(extents)));
}

bool FillPhase::Done(const Part& part) const {
  return part.stage == Stage::kEnded && part.ended && part.written == part.bytes_asked;
}

bool FillPhase::LeftUndone(const RunContext& ctx) const {
  return std::any_of(parts_.begin(), parts_.end(), [&](const Part& part) {
    if (Done(part)) return false;
    return std::any_of(ctx.agents.begin(), ctx.agents.end(), [&](const FleetAgent& agent) {
      return agent.live && HostOf(ctx, agent) == HostOf(ctx, *part.agent);
    });
  });
}

void FillPhase::OnAttempt(RunContext&) {
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
  part.written = bytes;
  ended_at_ = ctx.now;
  began_ = std::min(began_, FirstIoAt());
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
                                           FormatDuration((ctx.now - std::max(part.heard, t0_)) / kSecond * kSecond),
                                           part.bytes_done, part.bytes_asked),
                    .next = "The target may hang."}));
}

Nanos FillPhase::Elapsed() const {
  return std::max<Nanos>(0, ended_at_ - began_);
}

}  // namespace muster
