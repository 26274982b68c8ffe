#include <fmt/format.h>

#include "common/base/status.h"
#include "controller/aggregate/phase_merge.h"

namespace muster {
namespace {

constexpr size_t kMaxStragglers = 256;
constexpr size_t kErrorRows = 64;  // kept in the result

}  // namespace

// The fleet was merged interval by interval, the initiators each on their own: both must say the same.
void PhaseAggregator::Impl::CompareWithFleet() {
  GroupWindow all;
  for (const auto& [initiator, window] : initiators) {
    for (int k = 0; k < kOpKinds; ++k) {
      all.counters[k].Add(window.counters[k]);
      Must(all.latencies[k].Merge(window.latencies[k]));
      all.drained_max[k] = std::max(all.drained_max[k], window.drained_max[k]);
    }
    Must(all.lateness.Merge(window.lateness));
    all.offered_integral += window.offered_integral;
    all.wire_integral += window.wire_integral;
    all.time_full += window.time_full;
  }
  for (int k = 0; k < kOpKinds; ++k) {
    const std::string place = fmt::format("fleet {}", OpKindName(static_cast<OpKind>(k)));
    const KindCounters& left = all.counters[k];
    const KindCounters& right = fleet.counters[k];
    sums.Note(place, "operations", left.completed, "sum over initiators", right.completed, "fleet");
    sums.Note(place, "bytes", left.bytes, "sum over initiators", right.bytes, "fleet");
    sums.Note(place, "failed operations", left.failed, "sum over initiators", right.failed, "fleet");
    sums.Note(place, "largest response", all.drained_max[k], "over initiators", fleet.drained_max[k], "fleet");
    if (!(all.latencies[k] == fleet.latencies[k])) {
      sums.Note(place, "latency histograms differ in counters or moments; responses",
                all.latencies[k].response().count(), "sum over initiators", fleet.latencies[k].response().count(),
                "fleet");
      sums.Note(MakeError(
          absl::StatusCode::kDataLoss,
          {.code = "SUMS_MISMATCH",
           .place = place,
           .message = fmt::format("latency histograms of equal count ({}) differ: sum of responses over "
                                  "initiators {} ns, fleet {} ns",
                                  fleet.latencies[k].response().count(), all.latencies[k].response().moments().sum,
                                  fleet.latencies[k].response().moments().sum),
           .next = "The result is refused; please report this with the run file."}));
    }
  }
  sums.Note("fleet", "depth integral", all.offered_integral, "sum over initiators", fleet.offered_integral, "fleet");
  sums.Note("fleet", "wire depth integral", all.wire_integral, "sum over initiators", fleet.wire_integral, "fleet");
  sums.Note("fleet", "lateness", all.lateness.count(), "sum over initiators", fleet.lateness.count(), "fleet");
}

void PhaseAggregator::Impl::CheckSums() {
  for (const auto& [id, agent] : agents) {
    const uint64_t owed = ledger.Owed(agent.carries);
    figures.held_owed += owed;
    // An agent that was lost could not deliver them: the result says so, its coverage is incomplete anyway.
    if (!agent.lost) sums.Note("agent " + id, "histograms left out of intervals", owed, "not delivered", 0, "allowed");
    if (agent.totals.has_value()) {
      sums.CheckTotals(id, agent.carries, *agent.totals);
    } else if (!agent.lost && !agent.carries.empty()) {
      sums.Note(MakeError(absl::StatusCode::kDataLoss,
                          {.code = "SUMS_MISMATCH",
                           .place = "agent " + id,
                           .message = "the agent is there but left no totals, so nothing it sent can be checked",
                           .next = "The result is refused; see the agent's log."}));
    }
  }
  CompareWithFleet();
}

StepFigures PhaseAggregator::Seal(int64_t last_interval) {
  Impl& impl = *impl_;
  impl.last = last_interval;
  // What is still owed will not come: close what is there, in order, and name what never came at all.
  const int64_t window_begin = impl.shape.warmup_intervals;
  const int64_t window_end = window_begin + impl.shape.window_intervals;
  while (!impl.pending.empty() || impl.next <= std::min(last_interval, window_end - 1)) {
    auto first = impl.pending.begin();
    if (first != impl.pending.end() && (first->first == impl.next || impl.next > last_interval)) {
      auto node = impl.pending.extract(first);
      impl.Close(node.key(), std::move(node.mapped()));
      continue;
    }
    if (impl.InWindow(impl.next)) impl.NoteMissing(impl.next, {});
    ++impl.next;
  }
  impl.sealed = true;
  impl.MergeHeldWindow();
  impl.CheckSums();

  StepFigures out = std::move(impl.figures);
  out.interval = impl.shape.interval;
  out.first_interval = impl.shape.warmup_intervals;
  out.intervals_asked = impl.shape.window_intervals;
  const Workload& workload = impl.shape.workload;
  const double asked = impl.open_loop ? 0 : static_cast<double>(workload.load.streams) * workload.load.depth;
  auto write = [&](const GroupWindow& window, GroupFigures& group, uint32_t members) {
    // Without a single interval in the window there is nothing that a maximum would be the maximum of.
    GroupWindow shown = window;
    if (out.intervals == 0) shown.drained_max = {};
    impl.Must(shown.WriteTo(group, impl.has, out.window(), members));
    group.asked_depth = asked * members;
  };
  out.fleet.name = "fleet";
  out.initiators_asked = static_cast<uint32_t>(impl.carrier.size());
  out.initiators_heard = static_cast<uint32_t>(impl.heard.size());
  write(impl.fleet, out.fleet, out.initiators_asked);
  for (const auto& [initiator, agent] : impl.carrier) {
    GroupFigures& group = out.initiators.emplace_back();
    group.name = std::to_string(initiator);
    group.agent = agent;
    write(impl.initiators[initiator], group, 1);
  }
  for (auto& [key, error] : impl.errors) {
    if (out.errors.size() < kErrorRows) out.errors.push_back(std::move(error));
  }
  for (const auto& [id, agent] : impl.agents) {
    if (agent.lost) out.lost_agents.push_back(id);
    if (!agent.carries.empty()) {
      out.links.push_back({.agent = id, .coarse_deltas = agent.totals ? agent.totals->coarse_deltas : 0});
    }
    if (!agent.totals.has_value()) continue;
    out.straggle_count += agent.totals->straggle_count;
    out.overloaded = out.overloaded || agent.totals->overloaded;
    out.poisoned = out.poisoned || agent.totals->poisoned;
    out.connections.insert(out.connections.end(), agent.totals->connections.begin(), agent.totals->connections.end());
    for (const StraggleOp& op : agent.totals->stragglers) {
      out.stragglers.push_back(op);
      out.straggle_oldest = std::max(out.straggle_oldest, op.final_age);
    }
  }
  std::sort(out.connections.begin(), out.connections.end(), [](const ConnectionTotals& a, const ConnectionTotals& b) {
    return std::pair(a.initiator, a.connection) < std::pair(b.initiator, b.connection);
  });
  std::stable_sort(out.stragglers.begin(), out.stragglers.end(),
                   [](const StraggleOp& a, const StraggleOp& b) { return a.final_age > b.final_age; });
  if (out.stragglers.size() > kMaxStragglers) out.stragglers.resize(kMaxStragglers);
  if (out.window() > 0) out.cpu_share = static_cast<double>(impl.cpu_nanos) / static_cast<double>(out.window());
  out.sums_error = impl.sums.status();
  return out;
}

}  // namespace muster
