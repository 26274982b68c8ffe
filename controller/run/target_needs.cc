#include "controller/run/target_needs.h"

#include <algorithm>
#include <map>

namespace muster {

TargetNeeds NeedsOf(const Plan& plan, const std::string& target) {
  TargetNeeds needs;
  std::map<uint32_t, ObjectSpec> objects;
  uint64_t min_block = UINT64_MAX;
  for (const Step& step : plan.steps) {
    if (step.target != target || !step.skip_reason.empty()) continue;
    needs.writes |= step.writes;
    min_block = std::min(min_block, step.measure.workload.block);
    if (step.fill_passes > 0) min_block = std::min(min_block, step.fill.block);
    for (const ObjectSpec& object : step.objects) {
      const auto [at, fresh] = objects.emplace(object.slot, object);
      if (!fresh) at->second.size = std::max(at->second.size, object.size);
    }
  }
  if (min_block != UINT64_MAX) needs.min_block = min_block;
  for (auto& [slot, object] : objects) needs.objects.push_back(std::move(object));
  return needs;
}

}  // namespace muster
