#include "controller/aggregate/phase_merge.h"

#include <fmt/format.h>

namespace muster {
namespace {

constexpr size_t kMaxMissingNamed = 64;
constexpr size_t kNativeCodeRows = 32;  // beyond it, codes of one kind and class share a row: 4 x 8 still fit 64 rows

}  // namespace

void PhaseAggregator::Impl::NoteLargest(const IntervalDelta& delta, FleetInterval& interval) {
  for (const InitiatorDelta& initiator : delta.initiators) {
    for (const KindDelta& kind : initiator.kinds) {
      uint64_t& largest = interval.kinds[static_cast<size_t>(kind.kind)].response_max;
      largest = std::max(largest, kind.response.moments.max);
    }
  }
}

ErrorFigures& PhaseAggregator::Impl::ErrorRow(OpKind kind, Outcome outcome, int32_t native_code) {
  auto at = errors.find({kind, outcome, native_code});
  if (at == errors.end() && errors.size() >= kNativeCodeRows) {
    at = errors.lower_bound({kind, outcome, INT32_MIN});
    if (at != errors.end() && (at->second.kind != kind || at->second.outcome != outcome)) at = errors.end();
  }
  if (at == errors.end()) {
    at = errors.try_emplace({kind, outcome, native_code}).first;
    at->second.kind = kind;
    at->second.outcome = outcome;
    at->second.native_code = native_code;
  }
  return at->second;
}

void PhaseAggregator::Impl::MergeErrors(const IntervalDelta& delta) {
  for (const InitiatorDelta& initiator : delta.initiators) {
    for (const KindDelta& kind : initiator.kinds) {
      for (const ErrorDelta& error : kind.errors) {
        if (error.count == 0) continue;
        ErrorFigures& row = ErrorRow(kind.kind, error.outcome, error.native_code);
        row.count += error.count;
        if (!initiator.held) Must(row.response.Merge(error.response));
      }
    }
  }
}

// Checked against the ledger. Failures were counted with their intervals, their histograms are not.
void PhaseAggregator::Impl::MergeHeld(const HeldHistograms& held) {
  const bool window = !held.drain && held.first_interval >= shape.warmup_intervals;
  GroupWindow& group = initiators[held.initiator];
  if (held.kind.has_value()) {
    const KindDelta& kind = *held.kind;
    for (const ErrorDelta& error : kind.errors) {
      Must(ErrorRow(kind.kind, error.outcome, error.native_code).response.Merge(error.response));
    }
    if (open_loop && kind.due_in_window) {
      const auto k = static_cast<size_t>(kind.kind);
      Latencies set;
      Must(set.Add(kind));
      Must(set.AddUnfinished(kind.unfinished));
      Must(fleet.latencies[k].Merge(set));
      Must(group.latencies[k].Add(kind));
      Must(group.latencies[k].AddUnfinished(kind.unfinished));
    }
  }
  if (window) held_window.push_back(held);
}

// What follows the intervals that count, not the time an operation was due. Without any such interval there is no
// window whose latencies these were.
void PhaseAggregator::Impl::MergeHeldWindow() {
  if (figures.intervals == 0) return;
  for (const HeldHistograms& held : held_window) {
    GroupWindow& group = initiators[held.initiator];
    Must(fleet.lateness.Merge(held.lateness));
    Must(group.lateness.Merge(held.lateness));
    if (open_loop || !held.kind.has_value()) continue;
    const auto k = static_cast<size_t>(held.kind->kind);
    Latencies set;
    Must(set.Add(*held.kind));
    Must(fleet.latencies[k].Merge(set));
    Must(group.latencies[k].Add(*held.kind));
  }
}

// Latencies of open loop are those of operations due in the window, whenever they ended.
void PhaseAggregator::Impl::MergeOpenLoop(const IntervalDelta& delta, const DecodedDelta& decoded) {
  for (int k = 0; k < kOpKinds; ++k) Must(fleet.latencies[k].Merge(decoded.due[k]));
  for (const InitiatorDelta& initiator : delta.initiators) {
    if (initiator.held) continue;
    GroupWindow& window = initiators[initiator.initiator];
    for (const KindDelta& kind : initiator.kinds) {
      if (!kind.due_in_window) continue;
      Latencies& set = window.latencies[static_cast<size_t>(kind.kind)];
      Must(set.Add(kind));
      Must(set.AddUnfinished(kind.unfinished));
    }
  }
}

void PhaseAggregator::Impl::MergeDrain(const IntervalDelta& delta, const DecodedDelta& decoded) {
  for (int k = 0; k < kOpKinds; ++k) {
    fleet.drained_max[k] = std::max(fleet.drained_max[k], decoded.largest[k]);
    fleet.seen[k] = fleet.seen[k] || decoded.seen[k];
  }
  for (const InitiatorDelta& initiator : delta.initiators) {
    GroupWindow& window = initiators[initiator.initiator];
    for (const KindDelta& kind : initiator.kinds) {
      const auto k = static_cast<size_t>(kind.kind);
      uint64_t& largest = window.drained_max[k];
      largest = std::max({largest, kind.response.moments.max, kind.unfinished.moments.max});
      for (const ErrorDelta& error : kind.errors) largest = std::max(largest, error.response.moments.max);
      window.seen[k] = true;
    }
  }
}

void PhaseAggregator::Impl::MergePending(const std::string& id, const IntervalDelta& delta, DecodedDelta& decoded) {
  PendingInterval& interval = pending[delta.interval];
  for (int k = 0; k < kOpKinds; ++k) {
    Must(interval.latencies[k].Merge(decoded.due[k]));
    Must(interval.latencies[k].Merge(decoded.other[k]));
    interval.counters[k].Add(decoded.counters[k]);
    interval.seen[k] = interval.seen[k] || decoded.seen[k];
  }
  Must(interval.lateness.Merge(decoded.lateness));
  Must(interval.hiccup.Merge(decoded.hiccup));
  interval.offered_integral += decoded.offered_integral;
  interval.wire_integral += decoded.wire_integral;
  interval.time_full += decoded.time_full;
  interval.outstanding += decoded.outstanding;
  interval.waiting += decoded.waiting;
  interval.oldest_age = std::max(interval.oldest_age, decoded.oldest_age);
  interval.held += decoded.held;
  interval.deltas.emplace(id, delta);
}

std::string PhaseAggregator::Impl::Absence(const PhaseAgent& agent, const IntervalDelta* delta) const {
  if (agent.carries.empty()) return "";
  if (delta == nullptr) return agent.lost ? "lost" : "not delivered";
  if (delta->gap) {
    const auto across = agent.gaps.find(delta->interval);
    if (across == agent.gaps.end() || across->second == 0) return "gap";
    return fmt::format("gap, {} operations outstanding across it", across->second);
  }
  for (uint32_t initiator : agent.carries) {
    const bool there = std::any_of(delta->initiators.begin(), delta->initiators.end(),
                                   [&](const InitiatorDelta& d) { return d.initiator == initiator; });
    if (!there) return fmt::format("initiator {} absent", initiator);
  }
  return "";
}

bool PhaseAggregator::Impl::Closable(const PendingInterval& interval) const {
  return std::all_of(agents.begin(), agents.end(), [&](const auto& entry) {
    return entry.second.carries.empty() || interval.deltas.count(entry.first) != 0;
  });
}

void PhaseAggregator::Impl::CloseReady() {
  while (!pending.empty() && pending.begin()->first == next && Closable(pending.begin()->second)) {
    auto node = pending.extract(pending.begin());
    Close(node.key(), std::move(node.mapped()));
  }
}

void PhaseAggregator::Impl::NoteMissing(int64_t k, const std::map<std::string, IntervalDelta>& deltas) {
  for (const auto& [id, agent] : agents) {
    auto found = deltas.find(id);
    const std::string why = Absence(agent, found == deltas.end() ? nullptr : &found->second);
    if (why.empty()) continue;
    ++figures.missing_count;
    if (figures.missing.size() < kMaxMissingNamed) {
      figures.missing.push_back(fmt::format("agent {} interval {} ({})", id, k, why));
    }
  }
}

void PhaseAggregator::Impl::MergeWindow(const PendingInterval& interval) {
  ++figures.intervals;
  for (int k = 0; k < kOpKinds; ++k) {
    fleet.counters[k].Add(interval.counters[k]);
    fleet.seen[k] = fleet.seen[k] || interval.seen[k];
    if (!open_loop) Must(fleet.latencies[k].Merge(interval.latencies[k]));
  }
  Must(fleet.lateness.Merge(interval.lateness));
  Must(figures.hiccup.Merge(interval.hiccup));
  fleet.offered_integral += interval.offered_integral;
  fleet.wire_integral += interval.wire_integral;
  fleet.time_full += interval.time_full;
  for (const auto& [id, delta] : interval.deltas) {
    figures.edge_error = std::max(figures.edge_error, delta.edge_error);
    figures.stamp_error = std::max(figures.stamp_error, delta.stamp_error);
    figures.poll_gap_max = std::max(figures.poll_gap_max, delta.poll_gap_max);
    cpu_nanos += delta.cpu_nanos;
    for (const InitiatorDelta& initiator : delta.initiators) {
      GroupWindow& window = initiators[initiator.initiator];
      window.offered_integral += initiator.offered_integral;
      window.wire_integral += initiator.wire_integral;
      window.time_full += initiator.time_full;
      if (!initiator.held) Must(window.lateness.Merge(initiator.lateness));
      for (const KindDelta& kind : initiator.kinds) {
        const auto k = static_cast<size_t>(kind.kind);
        window.seen[k] = true;
        window.counters[k].Add(kind);
        if (!open_loop && !initiator.held) Must(window.latencies[k].Add(kind));
      }
    }
  }
}

void PhaseAggregator::Impl::NoteDetail(int64_t k, const std::map<std::string, IntervalDelta>& deltas) {
  if (!detail_wanted) return;
  if (detail != nullptr && (k - detail->interval) * shape.interval < kDetailPeriod) return;
  detail = DetailOf(k, deltas, shape.interval);
}

void PhaseAggregator::Impl::Close(int64_t k, PendingInterval interval) {
  next = std::max(next, k + 1);
  bool counts = false;
  if (InWindow(k)) {
    const uint64_t before = figures.missing_count;
    NoteMissing(k, interval.deltas);
    counts = figures.missing_count == before;
    if (counts) MergeWindow(interval);
  }
  if (k >= shape.warmup_intervals) (counts ? figures.held : figures.held_uncounted) += interval.held;
  FleetInterval out;
  out.interval = k;
  out.in_window = InWindow(k);
  out.held = interval.held != 0;
  for (int i = 0; i < kOpKinds; ++i) {
    if (!has[i] && !interval.seen[i]) continue;
    KindFigures& row = out.kinds[i];
    row.kind = static_cast<OpKind>(i);
    row.completed = interval.counters[i].completed;
    row.bytes = interval.counters[i].bytes;
    row.failed = interval.counters[i].failed;
    // Histograms of some initiators alone would pass for those of all.
    if (!out.held) Must(interval.latencies[i].WriteTo(row));
  }
  out.outstanding = interval.outstanding;
  out.waiting = interval.waiting;
  out.oldest_age = interval.oldest_age;
  NoteDetail(k, interval.deltas);
  for (auto& [id, delta] : interval.deltas) {
    NoteLargest(delta, out);
    std::move(delta.initiators.begin(), delta.initiators.end(), std::back_inserter(out.initiators));
  }
  std::sort(out.initiators.begin(), out.initiators.end(),
            [](const InitiatorDelta& a, const InitiatorDelta& b) { return a.initiator < b.initiator; });
  live.Closed(LiveOf(out, shape.interval));
  complete.push_back(std::move(out));
}

}  // namespace muster
