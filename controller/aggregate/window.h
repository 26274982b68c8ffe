#pragma once
#include <array>
#include <string>

#include "common/stats/op_stats.h"
#include "controller/aggregate/figures.h"
#include "controller/aggregate/latencies.h"

namespace muster {

// What a window adds up to for one group: the fleet, or one initiator.
struct GroupWindow {
  std::array<KindCounters, kOpKinds> counters;
  std::array<Latencies, kOpKinds> latencies;
  std::array<uint64_t, kOpKinds> drained_max{};  // response of operations outstanding at the end
  std::array<bool, kOpKinds> seen{};
  Histogram lateness;
  Uint128 offered_integral = 0, wire_integral = 0;
  Nanos time_full = 0;

  bool operator==(const GroupWindow&) const = default;

  // The group as figures: pooled row first, then the kinds in `has` or seen. Depths are integrals over `length`,
  // time full is over `length` times `members`; zero when length is zero.
  absl::Status WriteTo(GroupFigures& figures, const std::array<bool, kOpKinds>& has, Nanos length,
                       uint32_t members) const;
};

// Kinds of operation a workload issues.
std::array<bool, kOpKinds> KindsOf(const Workload& workload);

}  // namespace muster
