#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/stats/held_histograms.h"
#include "common/stats/op_stats.h"
#include "controller/aggregate/aggregator.h"

// Deltas built by hand: every figure of a test is written in it.
namespace muster::test {

inline EncodedHistogram Encoded(const std::vector<uint64_t>& values) {
  Histogram histogram;
  for (uint64_t value : values) histogram.Record(value);
  return histogram.Encode();
}

inline KindDelta Ops(OpKind kind, const std::vector<uint64_t>& responses, uint64_t bytes_each = 4096) {
  KindDelta delta;
  delta.kind = kind;
  delta.completed = responses.size();
  delta.bytes = responses.size() * bytes_each;
  delta.response = Encoded(responses);
  return delta;
}

struct Op {
  uint64_t wait, service;
};
inline KindDelta WaitedOps(OpKind kind, const std::vector<Op>& ops, bool due_in_window, uint64_t bytes_each = 4096) {
  std::vector<uint64_t> response, wait, service;
  for (const Op& op : ops) {
    response.push_back(op.wait + op.service);
    wait.push_back(op.wait);
    service.push_back(op.service);
  }
  KindDelta delta = Ops(kind, response, bytes_each);
  delta.wait = Encoded(wait);
  delta.service = Encoded(service);
  delta.due_in_window = due_in_window;
  return delta;
}

inline ErrorDelta Failure(Outcome outcome, int32_t code, const std::vector<uint64_t>& responses) {
  return {.outcome = outcome, .native_code = code, .count = responses.size(), .response = Encoded(responses)};
}

inline InitiatorDelta Initiator(uint32_t index, std::vector<KindDelta> kinds) {
  InitiatorDelta delta;
  delta.initiator = index;
  delta.kinds = std::move(kinds);
  return delta;
}

inline IntervalDelta Interval(int64_t interval, std::vector<InitiatorDelta> initiators) {
  IntervalDelta delta;
  delta.interval = interval;
  delta.length = kSecond;
  delta.initiators = std::move(initiators);
  return delta;
}

inline IntervalDelta Drain(int64_t interval, std::vector<InitiatorDelta> initiators) {
  IntervalDelta delta = Interval(interval, std::move(initiators));
  delta.drain = true;
  return delta;
}

inline IntervalDelta Gap(int64_t interval) {
  IntervalDelta delta = Interval(interval, {});
  delta.gap = true;
  return delta;
}

// What an agent beyond its bound makes of a delta.
inline IntervalDelta Stripped(IntervalDelta delta) {
  for (InitiatorDelta& initiator : delta.initiators) {
    initiator.held = true;
    initiator.lateness.counts.clear();
    for (KindDelta& kind : initiator.kinds) {
      for (auto* histogram : {&kind.response, &kind.wait, &kind.service, &kind.unfinished}) histogram->counts.clear();
      for (ErrorDelta& error : kind.errors) error.response.counts.clear();
    }
  }
  return delta;
}

// And what it sends for all of `first` to `last`.
inline HeldHistograms Held(uint32_t initiator, int64_t first, int64_t last, KindDelta kind) {
  return {.initiator = initiator,
          .first_interval = first,
          .last_interval = last,
          .intervals = static_cast<uint64_t>(last - first + 1),
          .kind = std::move(kind)};
}

// The totals an honest worker would have counted for these deltas.
inline PhaseTotals TotalsOf(const std::vector<IntervalDelta>& deltas) {
  std::map<uint32_t, InitiatorTotals> by_initiator;
  PhaseTotals totals;
  for (const IntervalDelta& delta : deltas) {
    for (const InitiatorDelta& initiator : delta.initiators) {
      InitiatorTotals& sum = by_initiator[initiator.initiator];
      sum.initiator = initiator.initiator;
      for (const KindDelta& kind : initiator.kinds) {
        KindTotals& total = sum.kinds[static_cast<size_t>(kind.kind)];
        total.completed += kind.completed;
        total.bytes += kind.bytes;
        for (const ErrorDelta& error : kind.errors) {
          (error.outcome == Outcome::kAborted ? total.aborted : total.failed) += error.count;
        }
        total.abandoned += kind.unfinished.moments.count;
        total.submitted = total.completed + total.failed + total.aborted + total.abandoned;
      }
    }
    if (!delta.drain) totals.last_interval = std::max(totals.last_interval, delta.interval);
  }
  for (auto& [index, sum] : by_initiator) totals.initiators.push_back(sum);
  return totals;
}

inline PhaseShape Shape(std::map<std::string, std::vector<uint32_t>> agents, uint32_t warmup, uint32_t window,
                        double read = 0.7) {
  PhaseShape shape;
  shape.agents = std::move(agents);
  shape.warmup_intervals = warmup;
  shape.window_intervals = window;
  shape.workload.read = read;
  shape.workload.load = {.streams = 2, .depth = 8};
  return shape;
}

inline const KindFigures& Row(const GroupFigures& group, std::optional<OpKind> kind) {
  for (const KindFigures& row : group.kinds) {
    if (row.kind == kind) return row;
  }
  static const KindFigures kNone;
  return kNone;
}

}  // namespace muster::test
