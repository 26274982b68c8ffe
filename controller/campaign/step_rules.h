#pragma once
#include <string>

#include "common/plan/plan.h"
#include "controller/campaign/campaign.h"
#include "controller/campaign/problems.h"

namespace muster {

// What a step means once its options have been seen together: the parts that all its points share.
struct StepShape {
  Pacing pacing = Pacing::kClosed;
  Layout layout = Layout::kShared;
  Load load;  // of points that do not sweep it
  uint32_t initiators_max = 1;
  uint32_t streams_max = 1;
  uint64_t size = 0;  // total, over all initiators
  uint32_t warmup_intervals = 0;
  uint32_t window_intervals = 1;
};

// Finds options of steps[index] that contradict each other, and whatever else no single field shows. The shape is of
// use only if nothing was added to `problems`.
StepShape CheckStep(const LoadedCampaign& campaign, int index, const Target& target, Problems& problems);

}  // namespace muster
