#pragma once
#include <array>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/stats/held_histograms.h"
#include "common/stats/op_stats.h"
#include "controller/aggregate/latencies.h"

namespace muster {

// One interval delta decoded and summed over its initiators: the fleet's side of the merge. Initiators are merged by
// another path, from the encoded histograms, so that comparing both at the end means something.
struct DecodedDelta {
  std::array<Latencies, kOpKinds> due;    // open loop: due in the window, unfinished included
  std::array<Latencies, kOpKinds> other;  // all others
  std::array<KindCounters, kOpKinds> counters;
  std::array<bool, kOpKinds> seen{};
  std::array<uint64_t, kOpKinds> largest{};  // response of any operation, failed and unfinished ones included
  Histogram lateness, hiccup;
  Uint128 offered_integral = 0, wire_integral = 0;
  Nanos time_full = 0;
  uint64_t outstanding = 0, waiting = 0;
  Nanos oldest_age = 0;
  uint64_t held = 0;  // initiators whose histograms are left out: they are in nothing here but counters and `largest`
};

// Checks a delta against the initiators its agent carries and decodes it. REPORT_UNKNOWN_INITIATOR,
// REPORT_DUPLICATE_INITIATOR, REPORT_DAMAGED (a kind or size no agent sends), HISTOGRAM_*.
absl::StatusOr<DecodedDelta> DecodeDelta(const std::string& agent, const std::vector<uint32_t>& carried,
                                         const IntervalDelta& delta);

// Decodes every histogram of it. HISTOGRAM_CORRUPT.
absl::Status CheckHeld(const HeldHistograms& held);

// Everything ever merged, in moments alone: if these sums do not wrap, no partial sum can. Checking here first is what
// makes Add all or nothing.
class Headroom {
 public:
  // HISTOGRAM_OVERFLOW, or REPORT_DAMAGED for counters; nothing is changed then.
  absl::Status Take(const std::string& agent, const IntervalDelta& delta);

 private:
  struct Sums {
    Moments response, wait, service, errors, lateness, hiccup;
    uint64_t completed = 0, bytes = 0, failed = 0;
    Uint128 offered = 0, wire = 0;
  };
  Sums sums_;
};

}  // namespace muster
