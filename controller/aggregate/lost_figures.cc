#include "controller/aggregate/lost_figures.h"

#include <algorithm>

#include "common/base/status.h"

namespace muster {
namespace {

absl::Status AddKind(const KindFigures& from, KindFigures& to) {
  to.completed += from.completed;
  to.bytes += from.bytes;
  to.failed += from.failed;
  to.response_max = std::max(to.response_max, from.response_max);
  MUSTER_RETURN_IF_ERROR(to.response.Merge(from.response));
  MUSTER_RETURN_IF_ERROR(to.wait.Merge(from.wait));
  return to.service.Merge(from.service);
}

absl::Status AddGroup(const GroupFigures& from, GroupFigures& to) {
  for (const KindFigures& kind : from.kinds) {
    const auto same =
        std::find_if(to.kinds.begin(), to.kinds.end(), [&](const auto& k) { return k.kind == kind.kind; });
    if (same == to.kinds.end()) {
      to.kinds.push_back(kind);
    } else {
      MUSTER_RETURN_IF_ERROR(AddKind(kind, *same));
    }
  }
  to.asked_depth += from.asked_depth;
  to.achieved_depth += from.achieved_depth;
  to.wire_depth += from.wire_depth;
  to.time_full_share += from.time_full_share;
  return to.lateness.Merge(from.lateness);
}

}  // namespace

absl::StatusOr<std::vector<LostFigures>> LostRows(const StepFigures& given_up, uint32_t attempt,
                                                  const std::vector<std::string>& agents) {
  std::vector<LostFigures> rows;
  if (given_up.intervals == 0) return rows;
  for (const std::string& agent : agents) {
    LostFigures row{.attempt = attempt, .intervals = given_up.intervals, .group = {}};
    row.group.name = "lost";
    row.group.agent = agent;
    uint32_t members = 0;
    for (const GroupFigures& initiator : given_up.initiators) {
      if (initiator.agent != agent) continue;
      ++members;
      MUSTER_RETURN_IF_ERROR(AddGroup(initiator, row.group));
    }
    if (members == 0) continue;
    row.group.time_full_share /= members;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace muster
