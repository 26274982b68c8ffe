#include "agent/engine/interval_collector.h"

#include <algorithm>

#include "common/base/status.h"

namespace muster {
namespace {

constexpr size_t kMaxStops = 64;

// Writes out what "all waits are zero" stands for.
absl::Status Expand(KindDelta& delta) {
  if (delta.completed == 0 || delta.wait.moments.count > 0) return absl::OkStatus();
  Histogram zeros;
  MUSTER_RETURN_IF_ERROR(zeros.RecordMany(0, delta.completed));
  delta.wait = zeros.Encode();
  delta.service = delta.response;
  return absl::OkStatus();
}

absl::Status MergeKind(KindDelta& into, KindDelta&& part) {
  if (into.wait.moments.count > 0 || part.wait.moments.count > 0) {
    MUSTER_RETURN_IF_ERROR(Expand(into));
    MUSTER_RETURN_IF_ERROR(Expand(part));
  }
  into.completed += part.completed;
  into.bytes += part.bytes;
  MUSTER_RETURN_IF_ERROR(MergeHistogram(into.response, part.response));
  MUSTER_RETURN_IF_ERROR(MergeHistogram(into.wait, part.wait));
  MUSTER_RETURN_IF_ERROR(MergeHistogram(into.service, part.service));
  MUSTER_RETURN_IF_ERROR(MergeHistogram(into.unfinished, part.unfinished));
  for (ErrorDelta& error : part.errors) {
    const auto same = std::find_if(into.errors.begin(), into.errors.end(),
                                   [&](const ErrorDelta& e) { return e.outcome == error.outcome; });
    if (same == into.errors.end()) {
      into.errors.push_back(std::move(error));
      continue;
    }
    same->count += error.count;
    MUSTER_RETURN_IF_ERROR(MergeHistogram(same->response, error.response));
  }
  return absl::OkStatus();
}

absl::Status MergeInitiator(InitiatorDelta& into, InitiatorDelta&& part) {
  into.offered_integral += part.offered_integral;
  into.wire_integral += part.wire_integral;
  into.outstanding += part.outstanding;
  into.waiting += part.waiting;
  into.oldest_age = std::max(into.oldest_age, part.oldest_age);
  into.time_full = std::max(into.time_full, part.time_full);
  MUSTER_RETURN_IF_ERROR(MergeHistogram(into.lateness, part.lateness));
  for (KindDelta& kind : part.kinds) {
    const auto same = std::find_if(into.kinds.begin(), into.kinds.end(), [&](const KindDelta& k) {
      return k.kind == kind.kind && k.due_in_window == kind.due_in_window;
    });
    if (same == into.kinds.end()) {
      into.kinds.push_back(std::move(kind));
    } else {
      MUSTER_RETURN_IF_ERROR(MergeKind(*same, std::move(kind)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MergeHistogram(EncodedHistogram& into, const EncodedHistogram& part) {
  if (part.moments.count == 0) return absl::OkStatus();
  if (into.moments.count == 0) {
    into = part;
    return absl::OkStatus();
  }
  MUSTER_ASSIGN_OR_RETURN(Histogram sum, Histogram::Decode(into));
  MUSTER_RETURN_IF_ERROR(sum.Merge(part));
  into = sum.Encode();
  return absl::OkStatus();
}

absl::Status MergeDelta(IntervalDelta& into, IntervalDelta&& part) {
  into.edge_error = std::max(into.edge_error, part.edge_error);
  into.stamp_error = std::max(into.stamp_error, part.stamp_error);
  into.poll_gap_max = std::max(into.poll_gap_max, part.poll_gap_max);
  into.cpu_nanos += part.cpu_nanos;
  MUSTER_RETURN_IF_ERROR(MergeHistogram(into.hiccup, part.hiccup));
  for (InitiatorDelta& initiator : part.initiators) {
    const auto place = std::lower_bound(into.initiators.begin(), into.initiators.end(), initiator.initiator,
                                        [](const InitiatorDelta& d, uint32_t index) { return d.initiator < index; });
    if (place == into.initiators.end() || place->initiator != initiator.initiator) {
      into.initiators.insert(place, std::move(initiator));
    } else {
      MUSTER_RETURN_IF_ERROR(MergeInitiator(*place, std::move(initiator)));
    }
  }
  return absl::OkStatus();
}

IntervalCollector::IntervalCollector(std::vector<std::vector<uint32_t>> initiators, std::vector<RecorderShape> shapes)
    : initiators_(std::move(initiators)), shapes_(std::move(shapes)) {
  for (const auto& slots : initiators_) newest_.emplace_back(slots.size());
}

absl::StatusOr<IntervalDelta> IntervalCollector::ToDelta(size_t worker, const IntervalSet& set) const {
  const RecorderShape& shape = shapes_[worker];
  IntervalDelta delta;
  delta.edge_error = set.edge_error;
  delta.stamp_error = set.stamp_error;
  delta.poll_gap_max = set.poll_gap_max;
  for (uint32_t slot = 0; slot < shape.initiators; ++slot) {
    const InitiatorFigures& figures = set.initiators[slot];
    InitiatorDelta& initiator = delta.initiators.emplace_back();
    initiator.initiator = initiators_[worker][slot];
    initiator.offered_integral = figures.offered_integral;
    initiator.wire_integral = figures.wire_integral;
    initiator.outstanding = figures.outstanding;
    initiator.waiting = figures.waiting;
    initiator.oldest_age = figures.oldest_age;
    initiator.time_full = figures.time_full;
    if (shape.open_loop) initiator.lateness = set.lateness[slot].Encode();
    for (int kind = 0; kind < kOpKinds; ++kind) {
      for (const bool in_window : {false, true}) {
        if (in_window && !shape.open_loop) continue;
        const KindRecorder* recorder = set.Find(slot, static_cast<OpKind>(kind), in_window);
        if (recorder == nullptr || recorder->empty()) continue;
        MUSTER_ASSIGN_OR_RETURN(KindDelta part,
                                recorder->ToDelta(static_cast<OpKind>(kind), in_window, shape.open_loop));
        initiator.kinds.push_back(std::move(part));
      }
    }
  }
  std::sort(delta.initiators.begin(), delta.initiators.end(),
            [](const InitiatorDelta& a, const InitiatorDelta& b) { return a.initiator < b.initiator; });
  return delta;
}

absl::Status IntervalCollector::Fold(Entry& into, Entry&& part) {
  const bool first = into.closed == 0;
  into.begin = first ? part.begin : std::min(into.begin, part.begin);
  into.end = first ? part.end : std::max(into.end, part.end);
  into.closed += part.closed;
  into.ran = into.ran || part.ran;
  into.delta.length = into.end - into.begin;
  if (first) {
    const Nanos length = into.delta.length;
    into.delta = std::move(part.delta);
    into.delta.length = length;
    return absl::OkStatus();
  }
  return MergeDelta(into.delta, std::move(part.delta));
}

absl::Status IntervalCollector::Add(size_t worker, const IntervalSet& set) {
  newest_[worker] = set.initiators;
  lost_ += set.Lost();
  MUSTER_ASSIGN_OR_RETURN(IntervalDelta delta, ToDelta(worker, set));
  Entry part{.delta = std::move(delta), .closed = 1, .ran = !set.missed, .begin = set.begin, .end = set.end};
  return Fold(set.drain ? drain_ : entries_[set.interval], std::move(part));
}

void IntervalCollector::NoteStop(Nanos begin, Nanos end) {
  stops_.emplace_back(begin, end);
  if (stops_.size() > kMaxStops) stops_.pop_front();
}

bool IntervalCollector::Stopped(Nanos begin, Nanos end) const {
  return std::any_of(stops_.begin(), stops_.end(),
                     [&](const auto& stop) { return stop.first <= begin && end <= stop.second; });
}

std::optional<IntervalDelta> IntervalCollector::Next() {
  const auto entry = entries_.find(next_);
  if (entry == entries_.end() || entry->second.closed < initiators_.size()) return std::nullopt;
  IntervalDelta delta = std::move(entry->second.delta);
  if (!entry->second.ran && Stopped(entry->second.begin, entry->second.end)) {
    // Nothing ended in it, because nobody looked; its depth says nothing either.
    const Nanos edge_error = delta.edge_error;
    delta = IntervalDelta{};
    delta.gap = true;
    delta.length = entry->second.end - entry->second.begin;
    delta.edge_error = edge_error;
  }
  delta.interval = next_++;
  entries_.erase(entry);
  return delta;
}

absl::StatusOr<IntervalDelta> IntervalCollector::Finish() {
  for (auto& [interval, entry] : entries_) MUSTER_RETURN_IF_ERROR(Fold(drain_, std::move(entry)));
  entries_.clear();
  drain_.delta.interval = next_;
  drain_.delta.drain = true;
  return std::move(drain_.delta);
}

std::vector<InitiatorTotals> IntervalCollector::Totals(const std::vector<bool>& stuck) const {
  std::map<uint32_t, InitiatorTotals> totals;
  for (size_t worker = 0; worker < newest_.size(); ++worker) {
    for (size_t slot = 0; slot < newest_[worker].size(); ++slot) {
      InitiatorTotals& sum = totals[initiators_[worker][slot]];
      sum.initiator = initiators_[worker][slot];
      for (int kind = 0; kind < kOpKinds; ++kind) {
        const KindTotals& part = newest_[worker][slot].totals[kind];
        KindTotals& into = sum.kinds[kind];
        into.submitted += part.submitted;
        into.completed += part.completed;
        into.failed += part.failed;
        into.aborted += part.aborted;
        into.bytes += part.bytes;
        into.abandoned += stuck[worker] ? part.submitted - part.completed - part.failed - part.aborted : part.abandoned;
      }
    }
  }
  std::vector<InitiatorTotals> result;
  result.reserve(totals.size());
  for (const auto& [index, sum] : totals) result.push_back(sum);
  return result;
}

uint64_t IntervalCollector::BytesWritten() const {
  uint64_t bytes = 0;
  for (const auto& worker : newest_) {
    for (const InitiatorFigures& figures : worker) bytes += figures.totals[static_cast<int>(OpKind::kWrite)].bytes;
  }
  return bytes;
}

}  // namespace muster
