#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/aggregate/figures.h"
#include "controller/store/sqlite.h"

namespace muster {

// A step whose reports are committed and that nobody has sealed: the controller was killed, or its disk failed.
struct UnsealedStep {
  uint32_t step = 0, attempt = 0;
};

// Those of the file, by step; of each the latest attempt. Only of a run that nobody is writing are they interrupted.
absl::StatusOr<std::vector<UnsealedStep>> UnsealedSteps(Database& db);

// The steps of the plan by index; empty when the file has no plan.
absl::StatusOr<Plan> ReadPlanSteps(Database& db);

// Merges the committed reports of such a step the way the run would have (PhaseAggregator), up to the last interval
// that every agent has committed. The result is INTERRUPTED: its message says how much of it there is, its check "sums"
// whether the agents' totals were there to be compared with. `visit`, if set, gets those intervals in order. Reads in
// the caller's transaction. RUN_DAMAGED without a place.
absl::StatusOr<StepResult> MergeUnsealed(Database& db, const UnsealedStep& unsealed,
                                         const std::function<absl::Status(const FleetInterval&)>& visit);

}  // namespace muster
