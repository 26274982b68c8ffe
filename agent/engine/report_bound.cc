#include "agent/engine/report_bound.h"

#include <algorithm>
#include <utility>

#include "agent/engine/interval_collector.h"
#include "common/base/status.h"
#include "common/stats/counts_pack.h"

namespace muster {
namespace {

// Upper bounds of what stands beside counters, tags and lengths included.
constexpr size_t kHistogramBytes = 104;
constexpr size_t kKindBytes = 40;
constexpr size_t kErrorBytes = 40;
constexpr size_t kInitiatorBytes = 136;

// A kind carries at most 16 classes of errors (report.proto); there are 7 outcomes that are failures.
constexpr size_t kErrorsByCode = 9;

template <typename Initiator, typename Visit>
void ForEachHistogram(Initiator& initiator, Visit visit) {
  for (auto& kind : initiator.kinds) {
    for (auto* histogram : {&kind.response, &kind.wait, &kind.service, &kind.unfinished}) visit(*histogram);
    for (auto& error : kind.errors) visit(error.response);
  }
  visit(initiator.lateness);
}

size_t PackedSize(const EncodedHistogram& histogram) {
  const auto packed = PackCounts(histogram.counts);
  return packed.ok() ? std::min(packed->size(), histogram.counts.size()) : histogram.counts.size();
}

absl::Status MergeErrors(std::vector<ErrorDelta>& into, std::vector<ErrorDelta>&& errors) {
  for (ErrorDelta& error : errors) {
    const bool by_code = into.size() < kErrorsByCode;
    const auto same = std::find_if(into.begin(), into.end(), [&](const ErrorDelta& e) {
      return e.outcome == error.outcome && (e.native_code == error.native_code || !by_code);
    });
    if (same == into.end()) {
      into.push_back(std::move(error));
      continue;
    }
    same->count += error.count;
    MUSTER_RETURN_IF_ERROR(MergeHistogram(same->response, error.response));
  }
  return absl::OkStatus();
}

}  // namespace

size_t SizeOnWire(const InitiatorDelta& initiator, size_t enough) {
  size_t fixed = kInitiatorBytes;
  for (const KindDelta& kind : initiator.kinds) fixed += kKindBytes + kind.errors.size() * kErrorBytes;
  size_t plain = 0;
  ForEachHistogram(initiator, [&](const EncodedHistogram& histogram) {
    if (histogram.moments.count == 0) return;
    fixed += kHistogramBytes;
    plain += histogram.counts.size();
  });
  if (fixed + plain <= enough) return fixed + plain;
  size_t packed = 0;
  ForEachHistogram(initiator, [&](const EncodedHistogram& histogram) {
    packed += histogram.counts.size() < kPackCountsFrom ? histogram.counts.size() : PackedSize(histogram);
  });
  return fixed + packed;
}

absl::Status ReportBound::Hold(int64_t interval, InitiatorDelta& initiator) {
  InitiatorDelta whole;
  whole.initiator = initiator.initiator;
  whole.kinds = initiator.kinds;
  whole.lateness = initiator.lateness;
  // From here on the interval is without them, whatever happens.
  ForEachHistogram(initiator, [](EncodedHistogram& histogram) { histogram.counts.clear(); });
  initiator.held = true;

  Held& held = held_[initiator.initiator];
  if (held.intervals == 0) held.first = interval;
  held.last = interval;
  ++held.intervals;
  for (KindDelta& kind : whole.kinds) {
    MUSTER_RETURN_IF_ERROR(MergeErrors(held.errors[{kind.kind, kind.due_in_window}], std::exchange(kind.errors, {})));
  }
  IntervalDelta part;
  part.initiators.push_back(std::move(whole));
  return MergeDelta(held.sum, std::move(part));
}

absl::Status ReportBound::Apply(IntervalDelta& delta, std::vector<HeldHistograms>& due) {
  const Part part = delta.drain ? Part::kDrain : delta.interval < warmup_ ? Part::kWarmup : Part::kWindow;
  if (part != part_) {
    std::vector<HeldHistograms> before = Flush();
    std::move(before.begin(), before.end(), std::back_inserter(due));
    part_ = part;
  }
  absl::Status first;
  for (InitiatorDelta& initiator : delta.initiators) {
    bool any = false;
    ForEachHistogram(initiator, [&](const EncodedHistogram& histogram) { any = any || !histogram.counts.empty(); });
    if (!any || SizeOnWire(initiator, bytes_) <= bytes_) continue;
    const absl::Status status = Hold(delta.interval, initiator);
    if (first.ok()) first = status;
  }
  return first;
}

size_t ReportBound::Bytes() const {
  size_t bytes = 0;
  for (const auto& [index, held] : held_) {
    for (const InitiatorDelta& initiator : held.sum.initiators) {
      ForEachHistogram(initiator, [&](const EncodedHistogram& histogram) { bytes += histogram.counts.size(); });
    }
    for (const auto& [kind, errors] : held.errors) {
      for (const ErrorDelta& error : errors) bytes += error.response.counts.size();
    }
  }
  return bytes;
}

absl::Status ReportBound::Join(HeldHistograms other) {
  Held& held = held_[other.initiator];
  if (!std::exchange(held.joined, true)) {
    held.first = held.intervals == 0 ? other.first_interval : std::min(held.first, other.first_interval);
    held.last = std::max(held.last, other.last_interval);
    held.intervals += other.intervals;
  }
  InitiatorDelta whole;
  whole.initiator = other.initiator;
  whole.lateness = std::move(other.lateness);
  if (other.kind.has_value()) {
    KindDelta& kind = *other.kind;
    MUSTER_RETURN_IF_ERROR(MergeErrors(held.errors[{kind.kind, kind.due_in_window}], std::exchange(kind.errors, {})));
    whole.kinds.push_back(std::move(kind));
  }
  IntervalDelta part;
  part.initiators.push_back(std::move(whole));
  return MergeDelta(held.sum, std::move(part));
}

std::vector<HeldHistograms> ReportBound::Flush() {
  std::vector<HeldHistograms> out;
  for (auto& [index, held] : held_) {
    HeldHistograms message{.initiator = index,
                           .first_interval = held.first,
                           .last_interval = held.last,
                           .intervals = held.intervals,
                           .drain = part_ == Part::kDrain};
    for (InitiatorDelta& initiator : held.sum.initiators) {
      for (KindDelta& kind : initiator.kinds) {
        kind.errors = std::move(held.errors[{kind.kind, kind.due_in_window}]);
        out.push_back(message);
        out.back().kind = std::move(kind);
      }
      if (initiator.lateness.moments.count == 0) continue;
      out.push_back(message);
      out.back().lateness = std::move(initiator.lateness);
    }
  }
  held_.clear();
  return out;
}

}  // namespace muster
