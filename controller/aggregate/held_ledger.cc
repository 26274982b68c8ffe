#include "controller/aggregate/held_ledger.h"

#include <fmt/format.h>

#include "common/base/status.h"
#include "controller/aggregate/latencies.h"

namespace muster {
namespace {

absl::Status Refuse(std::string code, const std::string& place, std::string message) {
  return MakeError(absl::StatusCode::kInvalidArgument, {.code = std::move(code),
                                                        .place = place,
                                                        .message = std::move(message),
                                                        .next = "Nothing of the report was merged."});
}

absl::Status Mismatch(const std::string& place, std::string message) {
  return MakeError(absl::StatusCode::kDataLoss,
                   {.code = "SUMS_MISMATCH",
                    .place = place,
                    .message = std::move(message),
                    .next = "The result is refused; please report this with the run file."});
}

Moments Zeros(uint64_t count) {
  if (count == 0) return {};
  return {.count = count, .min = 0};
}

absl::StatusOr<Moments> Sum(Moments a, const Moments& b) {
  MUSTER_RETURN_IF_ERROR(a.Merge(b));
  return a;
}

}  // namespace

HeldLedger::Part HeldLedger::PartOf(int64_t interval, bool drain) const {
  return drain ? Part::kDrain : interval < warmup_ ? Part::kWarmup : Part::kWindow;
}

absl::Status HeldLedger::Add(const KindDelta& delta, Kind& sum) {
  sum.there = true;
  sum.delivered = false;
  sum.completed += delta.completed;
  sum.bytes += delta.bytes;
  MUSTER_RETURN_IF_ERROR(sum.response.Merge(delta.response.moments));
  MUSTER_RETURN_IF_ERROR(sum.unfinished.Merge(delta.unfinished.moments));
  if (HasExplicitWait(delta)) {
    MUSTER_RETURN_IF_ERROR(sum.wait.Merge(delta.wait.moments));
    MUSTER_RETURN_IF_ERROR(sum.service.Merge(delta.service.moments));
  } else {
    MUSTER_RETURN_IF_ERROR(sum.prompt.Merge(delta.response.moments));
  }
  for (const ErrorDelta& error : delta.errors) {
    sum.failed += error.count;
    MUSTER_RETURN_IF_ERROR(sum.errors.Merge(error.response.moments));
  }
  return absl::OkStatus();
}

absl::Status HeldLedger::Compare(const KindDelta& delta, const Kind& sum, bool& same) {
  uint64_t failed = 0;
  Moments errors;
  for (const ErrorDelta& error : delta.errors) {
    failed += error.count;
    MUSTER_RETURN_IF_ERROR(errors.Merge(error.response.moments));
  }
  same = delta.completed == sum.completed && delta.bytes == sum.bytes && failed == sum.failed &&
         delta.response.moments == sum.response && delta.unfinished.moments == sum.unfinished && errors == sum.errors;
  if (HasExplicitWait(delta)) {
    MUSTER_ASSIGN_OR_RETURN(const Moments wait, Sum(sum.wait, Zeros(sum.prompt.count)));
    MUSTER_ASSIGN_OR_RETURN(const Moments service, Sum(sum.service, sum.prompt));
    same = same && delta.wait.moments == wait && delta.service.moments == service;
  } else {
    same = same && sum.wait.count == 0 && sum.service.count == 0;
  }
  return absl::OkStatus();
}

absl::Status HeldLedger::AddDelta(const IntervalDelta& delta) {
  for (const InitiatorDelta& initiator : delta.initiators) {
    if (!initiator.held) continue;
    Entry& entry = entries_[{initiator.initiator, PartOf(delta.interval, delta.drain)}];
    entry.first = entry.intervals == 0 ? delta.interval : std::min(entry.first, delta.interval);
    entry.last = entry.intervals == 0 ? delta.interval : std::max(entry.last, delta.interval);
    ++entry.intervals;
    for (const KindDelta& kind : initiator.kinds) {
      MUSTER_RETURN_IF_ERROR(Add(kind, entry.kinds[static_cast<size_t>(kind.kind)][kind.due_in_window ? 1 : 0]));
    }
    MUSTER_RETURN_IF_ERROR(entry.lateness.Merge(initiator.lateness.moments));
    entry.lateness_delivered = false;
  }
  return absl::OkStatus();
}

absl::Status HeldLedger::Deliver(const std::string& place, const HeldHistograms& held) {
  const Part part = PartOf(held.first_interval, held.drain);
  if (held.first_interval > held.last_interval || part != PartOf(held.last_interval, held.drain)) {
    return Refuse("REPORT_DAMAGED", place,
                  "held histograms of a range that is none, or goes over an edge of the window");
  }
  if (held.kind.has_value() == (held.lateness.moments.count != 0)) {
    return Refuse("REPORT_DAMAGED", place, "held histograms carry either a kind of operation or the lateness");
  }
  if (held.kind.has_value() && static_cast<int>(held.kind->kind) >= kOpKinds) {
    return Refuse("REPORT_DAMAGED", place, "a kind of operation that does not exist");
  }
  const auto found = entries_.find({held.initiator, part});
  if (found == entries_.end()) return Mismatch(place, "held histograms of intervals that left nothing out");
  Entry& entry = found->second;
  Kind* kind = held.kind.has_value()
                   ? &entry.kinds[static_cast<size_t>(held.kind->kind)][held.kind->due_in_window ? 1 : 0]
                   : nullptr;
  bool& delivered = kind != nullptr ? kind->delivered : entry.lateness_delivered;
  if (delivered) return Refuse("REPORT_DUPLICATE_HELD", place, "these histograms were delivered already");
  bool same = false;
  if (kind != nullptr) {
    MUSTER_RETURN_IF_ERROR(Compare(*held.kind, *kind, same));
    same = same && kind->there;
  } else {
    same = held.lateness.moments == entry.lateness;
  }
  const bool range =
      held.first_interval == entry.first && held.last_interval == entry.last && held.intervals == entry.intervals;
  if (!range || !same) {
    return Mismatch(
        place, fmt::format("held histograms of {} intervals from {} to {} ({} operations completed) are not what {} "
                           "intervals from {} to {} left out ({} completed)",
                           held.intervals, held.first_interval, held.last_interval,
                           kind != nullptr ? held.kind->completed : held.lateness.moments.count, entry.intervals,
                           entry.first, entry.last, kind != nullptr ? kind->completed : entry.lateness.count));
  }
  delivered = true;
  return absl::OkStatus();
}

uint64_t HeldLedger::Owed(const std::vector<uint32_t>& initiators) const {
  uint64_t owed = 0;
  for (uint32_t initiator : initiators) {
    for (Part part : {Part::kWarmup, Part::kWindow, Part::kDrain}) {
      const auto found = entries_.find({initiator, part});
      if (found == entries_.end()) continue;
      for (const auto& cohorts : found->second.kinds) {
        for (const Kind& kind : cohorts) owed += kind.there && !kind.delivered ? 1 : 0;
      }
      owed += found->second.lateness.count != 0 && !found->second.lateness_delivered ? 1 : 0;
    }
  }
  return owed;
}

}  // namespace muster
