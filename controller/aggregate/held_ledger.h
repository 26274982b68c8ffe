#pragma once
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/stats/held_histograms.h"
#include "common/stats/op_stats.h"

namespace muster {

// What intervals left out because of the report bound, in exact moments, against the merged histograms that come for
// them later. Both must be the same to the last bit: moments are sums of integers. Value type; not thread-safe.
class HeldLedger {
 public:
  explicit HeldLedger(int64_t warmup) : warmup_(warmup) {}

  // Notes what the initiators marked `held` left out. HISTOGRAM_OVERFLOW, which Headroom rules out.
  absl::Status AddDelta(const IntervalDelta& delta);
  // REPORT_DAMAGED: a range over an edge of the window, neither kind nor lateness or both. REPORT_DUPLICATE_HELD.
  // SUMS_MISMATCH: not what was left out; it counts as not delivered then. `place` names agent and initiator.
  absl::Status Deliver(const std::string& place, const HeldHistograms& held);
  // Histograms of the initiators that were left out and never came.
  uint64_t Owed(const std::vector<uint32_t>& initiators) const;

 private:
  enum class Part : uint8_t { kWarmup, kWindow, kDrain };
  struct Kind {
    bool there = false, delivered = false;
    uint64_t completed = 0, bytes = 0, failed = 0;
    Moments response, wait, service, unfinished, errors;
    Moments prompt;  // responses of deltas that left wait and service out: wait is zero, service is this
  };
  struct Entry {
    int64_t first = 0, last = 0;
    uint64_t intervals = 0;
    std::array<std::array<Kind, 2>, kOpKinds> kinds;  // by due_in_window
    Moments lateness;
    bool lateness_delivered = false;
  };
  Part PartOf(int64_t interval, bool drain) const;
  static absl::Status Add(const KindDelta& delta, Kind& sum);
  static absl::Status Compare(const KindDelta& delta, const Kind& sum, bool& same);

  int64_t warmup_;
  std::map<std::pair<uint32_t, Part>, Entry> entries_;
};

}  // namespace muster
