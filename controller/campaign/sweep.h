#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/base/units.h"
#include "controller/campaign/campaign.h"
#include "controller/campaign/problems.h"

namespace muster {

// The options a sweep may vary, at one of its points.
struct SweepPoint {
  uint32_t initiators = 1;
  Load load;
  uint64_t block = 0;
  double read = 1;
  double rate = 0;
  std::vector<std::pair<std::string, std::string>> labels;  // ("load", "1T4Q"), in the order written

  // "db" or "db[initiators=2,load=1T4Q]".
  std::string NameOf(const std::string& step) const;
};

// All combinations of the step's lists in the order the file writes them, the first list varying slowest; one point
// when nothing is swept. Adds DUPLICATE_POINT for a value that is listed twice, and PLAN_TOO_LARGE (returning nothing)
// for more than `most` points.
std::vector<SweepPoint> ExpandSweep(const LoadedCampaign& campaign, const v1::Sweep& sweep, const std::string& path,
                                    const SweepPoint& base, size_t most, Problems& problems);

}  // namespace muster
