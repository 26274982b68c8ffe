#pragma once
#include <map>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "common/stats/held_histograms.h"
#include "common/stats/op_stats.h"

namespace muster {

// Keeps the report of every initiator-interval within a bound of bytes on the wire. Beyond it the initiator's
// histograms are taken out of the interval, which keeps counters and moments, and are carried on merged until the
// next edge of the window (begin, end) or the end of the drain. Exact: nothing is rounded, dropped or merged over such
// an edge. Memory: one merged initiator each, and only of those beyond the bound. Pure; not thread-safe.
class ReportBound {
 public:
  // `warmup`: first interval of the window.
  ReportBound(size_t bytes, int64_t warmup) : bytes_(bytes), warmup_(warmup) {}

  // Deltas in order, the drain last. Appends to `due` what must be delivered before this delta. HISTOGRAM_OVERFLOW or
  // HISTOGRAM_CORRUPT when histograms cannot be merged: what could not is in neither, and sums will say so.
  absl::Status Apply(IntervalDelta& delta, std::vector<HeldHistograms>& due);
  // After the drain: what is left.
  std::vector<HeldHistograms> Flush();
  bool Holds(uint32_t initiator) const { return held_.contains(initiator); }
  size_t Bytes() const;  // of the counters held
  // Joins what another bound has held of the same initiator in the same part of the phase: all that one Flush gave of
  // it. Errors as of Apply.
  absl::Status Join(HeldHistograms held);

 private:
  enum class Part : uint8_t { kWarmup, kWindow, kDrain };
  using KindKey = std::tuple<OpKind, bool>;
  struct Held {
    int64_t first = 0, last = 0;
    uint64_t intervals = 0;
    bool joined = false;  // intervals of the other bound are counted
    IntervalDelta sum;    // of one initiator
    std::map<KindKey, std::vector<ErrorDelta>> errors;
  };
  absl::Status Hold(int64_t interval, InitiatorDelta& initiator);

  const size_t bytes_;
  const int64_t warmup_;
  Part part_ = Part::kWarmup;
  std::map<uint32_t, Held> held_;
};

// Bytes of an initiator's part of a report as protobuf has it (proto/muster/v1/report.proto): never less, and at most
// 104 more a histogram. Looks at how counters pack only when they would pass `enough` unpacked.
size_t SizeOnWire(const InitiatorDelta& initiator, size_t enough = 0);

}  // namespace muster
