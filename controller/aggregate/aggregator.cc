#include "controller/aggregate/aggregator.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/base/status.h"
#include "controller/aggregate/decoded_delta.h"
#include "controller/aggregate/latencies.h"
#include "controller/aggregate/live.h"
#include "controller/aggregate/sums.h"
#include "controller/aggregate/window.h"

namespace muster {
namespace {

constexpr int64_t kMaxInterval = 10'000'000;  // as the message rule has it
constexpr size_t kMaxMissingNamed = 64;
constexpr size_t kMaxStragglers = 256;
constexpr size_t kErrorRows = 64;       // kept in the result
constexpr size_t kNativeCodeRows = 32;  // beyond it, codes of one kind and class share a row: 4 x 8 still fit

absl::Status Refuse(std::string code, std::string place, std::string message) {
  return MakeError(absl::StatusCode::kInvalidArgument, {.code = std::move(code),
                                                        .place = std::move(place),
                                                        .message = std::move(message),
                                                        .next = "Nothing of the report was merged."});
}

struct Agent {
  std::vector<uint32_t> carries;
  std::vector<bool> delivered;  // by interval
  bool drained = false, lost = false;
  std::optional<PhaseTotals> totals;

  bool Delivered(int64_t interval) const {
    return interval >= 0 && static_cast<size_t>(interval) < delivered.size() && delivered[interval];
  }
};

// An interval that somebody has delivered and that is not closed yet.
struct Pending {
  std::array<Latencies, kOpKinds> latencies;  // fleet, all operations done in the interval
  std::array<KindCounters, kOpKinds> counters;
  std::array<bool, kOpKinds> seen{};
  Histogram lateness, hiccup;
  Uint128 offered_integral = 0, wire_integral = 0;
  Nanos time_full = 0;
  uint64_t outstanding = 0, waiting = 0;
  Nanos oldest_age = 0;
  std::map<std::string, IntervalDelta> deltas;  // by agent, as they came
};

}  // namespace

struct PhaseAggregator::Impl {
  explicit Impl(PhaseShape s) : shape(std::move(s)), open_loop(shape.workload.pacing != Pacing::kClosed) {
    has = KindsOf(shape.workload);
    for (const auto& [id, initiators] : shape.agents) {
      agents[id].carries = initiators;
      live.AddAgent(id, !initiators.empty());
      for (uint32_t initiator : initiators) carrier[initiator] = id;
    }
  }

  bool InWindow(int64_t k) const {
    return k <= last && k >= shape.warmup_intervals && k < int64_t{shape.warmup_intervals} + shape.window_intervals;
  }
  absl::Status CheckDelivery(const std::string& id, const IntervalDelta& delta) const;
  void MergePending(const std::string& id, const IntervalDelta& delta, DecodedDelta& decoded);
  void MergeOpenLoop(const IntervalDelta& delta, const DecodedDelta& decoded);
  void MergeDrain(const IntervalDelta& delta, const DecodedDelta& decoded);
  void MergeErrors(const IntervalDelta& delta);

  // True when no live agent owes the interval.
  bool Closable(const Pending& interval) const;
  void CloseReady();
  void Close(int64_t k, Pending interval);
  // Why an agent's part of the interval is not in it; empty when all of it is.
  std::string Absence(const Agent& agent, const IntervalDelta* delta) const;
  void NoteMissing(int64_t k, const std::map<std::string, IntervalDelta>& deltas);
  void MergeWindow(const Pending& interval);

  void CheckSums();
  void CompareWithFleet();
  void Must(const absl::Status& status) {
    if (!status.ok()) sums.Note(status);
  }

  const PhaseShape shape;
  const bool open_loop;
  std::array<bool, kOpKinds> has{};
  std::map<std::string, Agent, std::less<>> agents;
  std::map<uint32_t, std::string> carrier;
  std::map<int64_t, Pending> pending;
  int64_t next = 0;  // first interval that is not closed
  std::vector<FleetInterval> complete;
  LiveView live;
  Headroom headroom;
  SumsCheck sums;
  GroupWindow fleet;
  std::map<uint32_t, GroupWindow> initiators;
  std::set<uint32_t> heard;
  std::map<std::tuple<OpKind, Outcome, int32_t>, ErrorFigures> errors;
  StepFigures figures;  // filled while intervals close
  int64_t cpu_nanos = 0;
  int64_t last = kMaxInterval;  // of the phase, once sealed
  bool sealed = false;
};

absl::Status PhaseAggregator::Impl::CheckDelivery(const std::string& id, const IntervalDelta& delta) const {
  const std::string place = fmt::format("agent {} interval {}{}", id, delta.interval, delta.drain ? " (drain)" : "");
  auto found = agents.find(id);
  if (found == agents.end()) return Refuse("REPORT_UNKNOWN_AGENT", place, "the agent is not part of this phase");
  if (sealed) return Refuse("REPORT_LATE", place, "the phase is sealed");
  if (delta.interval < 0 || delta.interval > kMaxInterval) {
    return Refuse("REPORT_DAMAGED", place, "no such interval");
  }
  const Agent& agent = found->second;
  if (delta.drain ? agent.drained : agent.Delivered(delta.interval)) {
    return Refuse("REPORT_DUPLICATE_INTERVAL", place, "the agent has delivered this interval already");
  }
  if (!delta.drain && delta.interval < next) {
    return Refuse("REPORT_LATE", place, "the interval was closed when the agent was lost");
  }
  return absl::OkStatus();
}

void PhaseAggregator::Impl::MergeErrors(const IntervalDelta& delta) {
  for (const InitiatorDelta& initiator : delta.initiators) {
    for (const KindDelta& kind : initiator.kinds) {
      for (const ErrorDelta& error : kind.errors) {
        if (error.count == 0) continue;
        auto at = errors.find({kind.kind, error.outcome, error.native_code});
        if (at == errors.end() && errors.size() >= kNativeCodeRows) {
          at = errors.lower_bound({kind.kind, error.outcome, INT32_MIN});
          if (at != errors.end() && (at->second.kind != kind.kind || at->second.outcome != error.outcome)) {
            at = errors.end();
          }
        }
        if (at == errors.end()) {
          at = errors.try_emplace({kind.kind, error.outcome, error.native_code}).first;
          at->second.kind = kind.kind;
          at->second.outcome = error.outcome;
          at->second.native_code = error.native_code;
        }
        at->second.count += error.count;
        Must(at->second.response.Merge(error.response));
      }
    }
  }
}

// Latencies of open loop are those of operations due in the window, whenever they ended.
void PhaseAggregator::Impl::MergeOpenLoop(const IntervalDelta& delta, const DecodedDelta& decoded) {
  for (int k = 0; k < kOpKinds; ++k) Must(fleet.latencies[k].Merge(decoded.due[k]));
  for (const InitiatorDelta& initiator : delta.initiators) {
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
  Pending& interval = pending[delta.interval];
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
  interval.deltas.emplace(id, delta);
}

std::string PhaseAggregator::Impl::Absence(const Agent& agent, const IntervalDelta* delta) const {
  if (agent.carries.empty()) return "";
  if (delta == nullptr) return agent.lost ? "lost" : "not delivered";
  if (delta->gap) return "gap";
  for (uint32_t initiator : agent.carries) {
    const bool there = std::any_of(delta->initiators.begin(), delta->initiators.end(),
                                   [&](const InitiatorDelta& d) { return d.initiator == initiator; });
    if (!there) return fmt::format("initiator {} absent", initiator);
  }
  return "";
}

bool PhaseAggregator::Impl::Closable(const Pending& interval) const {
  return std::all_of(agents.begin(), agents.end(), [&](const auto& entry) {
    return entry.second.lost || entry.second.carries.empty() || interval.deltas.count(entry.first) != 0;
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

void PhaseAggregator::Impl::MergeWindow(const Pending& interval) {
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
      Must(window.lateness.Merge(initiator.lateness));
      for (const KindDelta& kind : initiator.kinds) {
        const auto k = static_cast<size_t>(kind.kind);
        window.seen[k] = true;
        window.counters[k].Add(kind);
        if (!open_loop) Must(window.latencies[k].Add(kind));
      }
    }
  }
}

void PhaseAggregator::Impl::Close(int64_t k, Pending interval) {
  next = std::max(next, k + 1);
  if (InWindow(k)) {
    const uint64_t before = figures.missing_count;
    NoteMissing(k, interval.deltas);
    if (figures.missing_count == before) MergeWindow(interval);
  }
  FleetInterval out;
  out.interval = k;
  out.in_window = InWindow(k);
  for (int i = 0; i < kOpKinds; ++i) {
    if (!has[i] && !interval.seen[i]) continue;
    KindFigures& row = out.kinds[i];
    row.kind = static_cast<OpKind>(i);
    row.completed = interval.counters[i].completed;
    row.bytes = interval.counters[i].bytes;
    row.failed = interval.counters[i].failed;
    Must(interval.latencies[i].WriteTo(row));
  }
  out.outstanding = interval.outstanding;
  out.waiting = interval.waiting;
  out.oldest_age = interval.oldest_age;
  for (auto& [id, delta] : interval.deltas) {
    std::move(delta.initiators.begin(), delta.initiators.end(), std::back_inserter(out.initiators));
  }
  std::sort(out.initiators.begin(), out.initiators.end(),
            [](const InitiatorDelta& a, const InitiatorDelta& b) { return a.initiator < b.initiator; });
  live.Closed(LiveOf(out, shape.interval));
  complete.push_back(std::move(out));
}

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

PhaseAggregator::PhaseAggregator(PhaseShape shape) : impl_(std::make_unique<Impl>(std::move(shape))) {}
PhaseAggregator::~PhaseAggregator() = default;

absl::Status PhaseAggregator::Add(const std::string& agent, const IntervalDelta& delta) {
  MUSTER_RETURN_IF_ERROR(impl_->CheckDelivery(agent, delta));
  Agent& state = impl_->agents.find(agent)->second;
  if (delta.gap) {
    // Missing: whatever else it carries is no measurement.
    IntervalDelta bare;
    bare.interval = delta.interval;
    bare.gap = true;
    impl_->pending[delta.interval].deltas.emplace(agent, std::move(bare));
  } else {
    MUSTER_ASSIGN_OR_RETURN(DecodedDelta decoded, DecodeDelta(agent, state.carries, delta));
    MUSTER_RETURN_IF_ERROR(impl_->headroom.Take(agent, delta));
    impl_->sums.AddDelta(agent, delta);
    impl_->MergeErrors(delta);
    if (impl_->open_loop) impl_->MergeOpenLoop(delta, decoded);
    if (delta.drain) {
      impl_->MergeDrain(delta, decoded);
    } else {
      impl_->MergePending(agent, delta, decoded);
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
    for (int k = 0; k < kOpKinds; ++k) {
      fleet.kinds[k].completed = at->second.counters[k].completed;
      fleet.kinds[k].bytes = at->second.counters[k].bytes;
      fleet.kinds[k].response = at->second.latencies[k].response();
    }
    LiveFigures figures = LiveOf(fleet, impl_->shape.interval);
    figures.provisional = true;
    return impl_->live.Complete(std::move(figures));
  }
  return impl_->live.Newest();
}

std::vector<FleetInterval> PhaseAggregator::TakeComplete() {
  return std::exchange(impl_->complete, {});
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
    if (!agent.totals.has_value()) continue;
    out.straggle_count += agent.totals->straggle_count;
    out.overloaded = out.overloaded || agent.totals->overloaded;
    out.poisoned = out.poisoned || agent.totals->poisoned;
    for (const StraggleOp& op : agent.totals->stragglers) {
      out.stragglers.push_back(op);
      out.straggle_oldest = std::max(out.straggle_oldest, op.final_age);
    }
  }
  std::stable_sort(out.stragglers.begin(), out.stragglers.end(),
                   [](const StraggleOp& a, const StraggleOp& b) { return a.final_age > b.final_age; });
  if (out.stragglers.size() > kMaxStragglers) out.stragglers.resize(kMaxStragglers);
  if (out.window() > 0) out.cpu_share = static_cast<double>(impl.cpu_nanos) / static_cast<double>(out.window());
  out.sums_error = impl.sums.status();
  return out;
}

}  // namespace muster
