#pragma once
#include <cstddef>
#include <set>
#include <vector>

#include "common/plan/plan.h"
#include "controller/campaign/campaign.h"
#include "controller/campaign/problems.h"

namespace muster {

// A target while the plan is compiled: what earlier steps have made of it.
struct TargetState {
  Target target;
  bool used = false;
  std::set<uint64_t> blocks;        // of all steps on it
  bool filled = false;              // every block of `objects` was written by a fill, and none trimmed since
  std::vector<ObjectSpec> objects;  // as the last step laid them out; empty: none did
};

inline constexpr size_t kMaxPlanSteps = 10'000;
inline constexpr size_t kMaxStepObjects = 65'536;     // as Prepare takes them
inline constexpr size_t kMaxPlanObjects = 2'000'000;  // over all steps: bounds the plan's memory to some 200 MB

// Compiles steps[index] on its target and appends its points to the plan; what is wrong goes to `problems`.
void CompileStep(const LoadedCampaign& campaign, int index, TargetState& state, Plan& plan, Problems& problems);

}  // namespace muster
