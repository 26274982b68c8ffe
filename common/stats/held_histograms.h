#pragma once
#include <cstdint>
#include <optional>

#include "common/stats/op_stats.h"

namespace muster {

// Histograms of one initiator that were left out of its interval reports because these would have passed the report
// bound (64 KiB on the wire), merged over the intervals that left them out. Never over an edge of the window: warm-up,
// window and drain come apart. One kind (and cohort) of operations a message, or the lateness, so that no message
// holds more than a dozen histograms.
struct HeldHistograms {
  uint32_t initiator = 0;
  int64_t first_interval = 0, last_interval = 0;  // the first and the last that were left out
  uint64_t intervals = 0;                         // how many were
  bool drain = false;                             // of the drain: first = last = the one after the last interval
  std::optional<KindDelta> kind;                  // its counters are the sums over those intervals
  EncodedHistogram lateness;
  bool operator==(const HeldHistograms&) const = default;
};

}  // namespace muster
