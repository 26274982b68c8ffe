#pragma once
#include <string>
#include <vector>

#include "common/plan/plan.h"

namespace muster {

// What a whole plan needs of one target: it is attached once and kept till the end of the run. Skipped steps need
// nothing.
struct TargetNeeds {
  std::vector<ObjectSpec> objects;  // by slot, each as large as the step that uses most of it
  bool writes = false;
  uint64_t min_block = 4096;  // smallest block of any step
};
TargetNeeds NeedsOf(const Plan& plan, const std::string& target);

}  // namespace muster
