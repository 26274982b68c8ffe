// What agents report: in sequence, to the phase and to the store; late reports; what links went through.
#include <fmt/format.h>

#include <algorithm>

#include "common/base/status.h"
#include "common/base/units.h"
#include "controller/run/run_machine.h"

namespace muster {

void RunMachine::OnReport(FleetAgent& agent, const AgentReport& report) {
  if (report.sequence <= agent.last_sequence) {
    ctx_.Complain(fmt::format("agent {}: report {} of {} rejected, it has been here", agent.id, report.sequence,
                              KeyText(report.key)));
    return;
  }
  absl::Status status;
  const uint64_t asked_before = agent.asked_commit;
  if (report.sequence != agent.last_sequence + 1) {
    status = MakeError(absl::StatusCode::kDataLoss,
                       {.code = "REPORT_OUT_OF_ORDER",
                        .place = "agent " + agent.id,
                        .message = fmt::format("report {} came after report {}", report.sequence, agent.last_sequence),
                        .next = "A report is missing; what follows cannot be trusted."});
  } else if (report.key.run != ctx_.options.run_id) {
    agent.last_sequence = report.sequence;
    ctx_.Complain(
        fmt::format("agent {}: report {} of run {} is stale, not kept", agent.id, report.sequence, report.key.run));
    Dropped(agent, report.sequence);
    return;
  } else if (phase_ && !phase_->done()) {
    // Owed to the store from here on: the phase must not take itself for committed with its last report.
    agent.asked_commit = report.sequence;
    status = phase_->OnReport(ctx_, agent, report);
  }
  if (!status.ok()) {
    // Not `last_sequence`: what the agent had sent before this run is nothing that this run's store will ever commit.
    agent.asked_commit = asked_before;
    agent.unusable = true;
    status = AtPlace(status, fmt::format("agent {} report {}", agent.id, report.sequence));
    ctx_.actions.emplace_back(RefuseReportsAction{agent.id, status});
    ctx_.Lose(agent, std::move(status), /*drop=*/false);
    OnLost(agent);
    return;
  }
  Keep(agent, report);
}

void RunMachine::Keep(FleetAgent& agent, const AgentReport& report) {
  agent.last_sequence = agent.asked_commit = report.sequence;
  if (!ctx_.store_ok()) return;  // received, never acknowledged
  ctx_.store_waiting_since = std::min(ctx_.store_waiting_since, ctx_.now);
  ctx_.actions.emplace_back(
      CommitReportAction{{.agent = agent.id, .sequence = report.sequence, .key = report.key, .bytes = report.bytes}});
}

// Of an agent that was lost and is back: merged until the phase is sealed; after that acknowledged and dropped.
void RunMachine::OnLateReport(FleetAgent& agent, const AgentReport& report) {
  if (report.sequence <= agent.last_sequence) return;
  agent.unusable = agent.unusable || report.sequence != agent.last_sequence + 1;
  const bool wanted = !agent.unusable && ctx_.store_ok() && report.key.run == ctx_.options.run_id &&
                      phase_ != nullptr && !phase_->done();
  if (wanted) {
    const uint64_t before = std::exchange(agent.asked_commit, report.sequence);
    if (phase_->OnLateReport(ctx_, agent, report).ok()) return Keep(agent, report);
    agent.asked_commit = before;
    // What follows of the phase would not add up without it.
    agent.unusable = true;
  }
  agent.last_sequence = report.sequence;
  Dropped(agent, report.sequence);
}

// The agent need not keep it; nothing is acknowledged before what came earlier is committed.
void RunMachine::Dropped(FleetAgent& agent, uint64_t sequence) {
  agent.dropped = sequence;
  if (agent.committed >= agent.asked_commit && ctx_.store_ok()) {
    ctx_.actions.emplace_back(AcknowledgeAction{agent.id, sequence});
  }
}

void RunMachine::OnCommitted(const ReportsCommitted& committed) {
  FleetAgent* agent = ctx_.Find(committed.agent);
  if (agent == nullptr || committed.sequence <= agent->committed) return;
  agent->committed = committed.sequence;
  // Oldest first: what is still open is younger than what has just been committed.
  ctx_.store_waiting_since = ctx_.AllCommitted() ? kNever : ctx_.now;
  const bool all = agent->committed >= agent->asked_commit;
  ctx_.actions.emplace_back(
      AcknowledgeAction{agent->id, all ? std::max(agent->dropped, committed.sequence) : committed.sequence});
}

// How often the links of the agents that took part were taken up again, as figures and as facts.
void RunMachine::NoteLinks() {
  for (LinkTotals& link : result_.figures.links) {
    const FleetAgent* agent = ctx_.Find(link.agent);
    const LinkTotals& before = links_before_[link.agent];
    link.reconnects = agent->reconnects - before.reconnects;
    link.down = agent->down - before.down;
    result_.facts.emplace_back(fmt::format("{}: link", link.agent),
                               fmt::format("{} reconnects, down {}, {} coarse deltas", link.reconnects,
                                           FormatLatency(static_cast<double>(link.down)), link.coarse_deltas));
  }
}

}  // namespace muster
