#include "controller/aggregate/aggregator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "controller/aggregate/phase_merge.h"

namespace muster {
namespace {

absl::Status Refuse(std::string code, std::string place, std::string message) {
  return MakeError(absl::StatusCode::kInvalidArgument, {.code = std::move(code),
                                                        .place = std::move(place),
                                                        .message = std::move(message),
                                                        .next = "Nothing of the report was merged."});
}

}  // namespace

absl::Status PhaseAggregator::Impl::CheckDelivery(const std::string& id, const IntervalDelta& delta) const {
  const std::string place = fmt::format("agent {} interval {}{}", id, delta.interval, delta.drain ? " (drain)" : "");
  auto found = agents.find(id);
  if (found == agents.end()) return Refuse("REPORT_UNKNOWN_AGENT", place, "the agent is not part of this phase");
  if (sealed) return Refuse("REPORT_LATE", place, "the phase is sealed");
  if (delta.interval < 0 || delta.interval > kMaxInterval) {
    return Refuse("REPORT_DAMAGED", place, "no such interval");
  }
  const PhaseAgent& agent = found->second;
  if (delta.drain ? agent.drained : agent.Delivered(delta.interval)) {
    return Refuse("REPORT_DUPLICATE_INTERVAL", place, "the agent has delivered this interval already");
  }
  if (!delta.drain && delta.interval < next) {
    return Refuse("REPORT_LATE", place, "the interval was closed when the agent was lost");
  }
  return absl::OkStatus();
}

PhaseAggregator::PhaseAggregator(PhaseShape shape) : impl_(std::make_unique<Impl>(std::move(shape))) {}
PhaseAggregator::~PhaseAggregator() = default;

absl::Status PhaseAggregator::Add(const std::string& agent, const IntervalDelta& delta) {
  MUSTER_RETURN_IF_ERROR(impl_->CheckDelivery(agent, delta));
  PhaseAgent& state = impl_->agents.find(agent)->second;
  if (delta.gap) {
    // Missing: whatever else it carries is no measurement.
    IntervalDelta bare;
    bare.interval = delta.interval;
    bare.gap = true;
    state.gaps[delta.interval] = state.outstanding;
    impl_->pending[delta.interval].deltas.emplace(agent, std::move(bare));
  } else {
    MUSTER_ASSIGN_OR_RETURN(DecodedDelta decoded, DecodeDelta(agent, state.carries, delta));
    MUSTER_RETURN_IF_ERROR(impl_->headroom.Take(agent, delta));
    impl_->sums.AddDelta(agent, delta);
    impl_->Must(impl_->ledger.AddDelta(delta));
    impl_->MergeErrors(delta);
    if (impl_->open_loop) impl_->MergeOpenLoop(delta, decoded);
    if (delta.drain) {
      impl_->MergeDrain(delta, decoded);
    } else {
      impl_->MergePending(agent, delta, decoded);
      state.outstanding = decoded.outstanding;
      for (const InitiatorDelta& initiator : delta.initiators) impl_->heard.insert(initiator.initiator);
    }
    impl_->live.Delivered(agent, delta, impl_->shape.interval);
  }
  if (delta.drain) {
    state.drained = true;
    return absl::OkStatus();
  }
  if (state.delivered.size() <= static_cast<size_t>(delta.interval)) state.delivered.resize(delta.interval + 1);
  state.delivered[delta.interval] = true;
  impl_->CloseReady();
  return absl::OkStatus();
}

absl::Status PhaseAggregator::AddHeld(const std::string& agent, const HeldHistograms& held) {
  const std::string place = fmt::format("agent {} initiator {} intervals {} to {}{}", agent, held.initiator,
                                        held.first_interval, held.last_interval, held.drain ? " (drain)" : "");
  auto found = impl_->agents.find(agent);
  if (found == impl_->agents.end()) return Refuse("REPORT_UNKNOWN_AGENT", place, "the agent is not part of this phase");
  if (impl_->sealed) return Refuse("REPORT_LATE", place, "the phase is sealed");
  const auto& carries = found->second.carries;
  if (std::find(carries.begin(), carries.end(), held.initiator) == carries.end()) {
    return Refuse("REPORT_UNKNOWN_INITIATOR", place, "the agent does not carry this initiator");
  }
  if (absl::Status damage = CheckHeld(held); !damage.ok()) return AtPlace(damage, place);
  if (absl::Status status = impl_->ledger.Deliver(place, held); !status.ok()) {
    if (GetErrorInfo(status).code != "SUMS_MISMATCH") return status;
    impl_->sums.Note(status);
    return absl::OkStatus();
  }
  impl_->sums.AddHeld(held);
  impl_->MergeHeld(held);
  return absl::OkStatus();
}

absl::Status PhaseAggregator::AddTotals(const std::string& agent, const PhaseTotals& totals) {
  auto found = impl_->agents.find(agent);
  if (found == impl_->agents.end()) {
    return Refuse("REPORT_UNKNOWN_AGENT", "agent " + agent, "the agent is not part of this phase");
  }
  if (impl_->sealed) return Refuse("REPORT_LATE", "agent " + agent, "the phase is sealed");
  if (found->second.totals.has_value()) {
    return Refuse("REPORT_DUPLICATE_TOTALS", "agent " + agent, "the agent has delivered its totals already");
  }
  for (const InitiatorTotals& initiator : totals.initiators) {
    const auto& carries = found->second.carries;
    if (std::find(carries.begin(), carries.end(), initiator.initiator) == carries.end()) {
      return Refuse("REPORT_UNKNOWN_INITIATOR", fmt::format("agent {} initiator {}", agent, initiator.initiator),
                    "totals of an initiator the agent does not carry");
    }
  }
  found->second.totals = totals;
  return absl::OkStatus();
}

void PhaseAggregator::Lose(const std::string& agent) {
  auto found = impl_->agents.find(agent);
  if (found == impl_->agents.end() || impl_->sealed) return;
  found->second.lost = true;
  impl_->live.Lost(agent);
  impl_->CloseReady();
}

std::optional<LiveFigures> PhaseAggregator::Live() const {
  // The newest interval that everybody owes nothing to but silent agents, if it is newer than the last closed one.
  for (auto at = impl_->pending.rbegin(); at != impl_->pending.rend(); ++at) {
    if (!impl_->live.Enough(at->second.deltas, at->first)) continue;
    FleetInterval fleet;
    fleet.interval = at->first;
    fleet.in_window = impl_->InWindow(at->first);
    fleet.outstanding = at->second.outstanding;
    fleet.held = at->second.held != 0;
    for (int k = 0; k < kOpKinds; ++k) {
      fleet.kinds[k].completed = at->second.counters[k].completed;
      fleet.kinds[k].bytes = at->second.counters[k].bytes;
      if (!fleet.held) fleet.kinds[k].response = at->second.latencies[k].response();
    }
    for (const auto& [id, delta] : at->second.deltas) Impl::NoteLargest(delta, fleet);
    LiveFigures figures = LiveOf(fleet, impl_->shape.interval);
    figures.provisional = true;
    impl_->NoteDetail(at->first, at->second.deltas);
    figures.detail = impl_->detail;
    return impl_->live.Complete(std::move(figures));
  }
  std::optional<LiveFigures> newest = impl_->live.Newest();
  if (newest) newest->detail = impl_->detail;
  return newest;
}

void PhaseAggregator::WantDetail(bool wanted) {
  impl_->detail_wanted = wanted;
  if (!wanted) impl_->detail = nullptr;
}

std::vector<FleetInterval> PhaseAggregator::TakeComplete() {
  return std::exchange(impl_->complete, {});
}

}  // namespace muster
