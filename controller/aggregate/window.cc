#include "controller/aggregate/window.h"

#include <algorithm>

#include "common/base/status.h"

namespace muster {

std::array<bool, kOpKinds> KindsOf(const Workload& workload) {
  std::array<bool, kOpKinds> has{};
  const bool moves_data = workload.trim < 1.0;
  has[static_cast<size_t>(OpKind::kRead)] = moves_data && workload.read > 0.0;
  has[static_cast<size_t>(OpKind::kWrite)] = moves_data && workload.read < 1.0;
  has[static_cast<size_t>(OpKind::kFlush)] = moves_data && workload.read < 1.0 && workload.flush_every > 0;
  has[static_cast<size_t>(OpKind::kTrim)] = workload.trim > 0.0;
  return has;
}

absl::Status GroupWindow::WriteTo(GroupFigures& figures, const std::array<bool, kOpKinds>& has, Nanos length,
                                  uint32_t members) const {
  KindFigures pooled;
  Latencies pooled_latencies;
  figures.kinds.assign(1, KindFigures{});
  for (int k = 0; k < kOpKinds; ++k) {
    if (!has[k] && !seen[k]) continue;
    KindFigures row;
    row.kind = static_cast<OpKind>(k);
    row.completed = counters[k].completed;
    row.bytes = counters[k].bytes;
    row.failed = counters[k].failed;
    row.response_max = drained_max[k];
    MUSTER_RETURN_IF_ERROR(latencies[k].WriteTo(row));
    pooled.completed += row.completed;
    pooled.bytes += row.bytes;
    pooled.failed += row.failed;
    pooled.response_max = std::max(pooled.response_max, row.response_max);
    MUSTER_RETURN_IF_ERROR(pooled_latencies.Merge(latencies[k]));
    figures.kinds.push_back(std::move(row));
  }
  MUSTER_RETURN_IF_ERROR(pooled_latencies.WriteTo(pooled));
  figures.kinds.front() = std::move(pooled);
  figures.lateness = lateness;
  if (length > 0) {
    const auto nanos = static_cast<double>(length);
    figures.achieved_depth = static_cast<double>(offered_integral) / nanos;
    figures.wire_depth = static_cast<double>(wire_integral) / nanos;
    figures.time_full_share = static_cast<double>(time_full) / nanos / std::max<uint32_t>(members, 1);
  }
  return absl::OkStatus();
}

}  // namespace muster
