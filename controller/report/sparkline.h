#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/clock.h"

namespace muster {

// Of one interval, all that the line needs.
struct SparkPoint {
  int64_t interval = 0;
  bool in_window = false;
  double iops = 0;
};

// IOPS of the fleet per interval as a line of eight heights from 0 to the largest, and below it which intervals are
// warm-up (~) and window (=); several intervals share a column (their mean) when there are more than `width`. An
// interval nobody delivered is a blank, one without a single operation the lowest bar. Empty without intervals.
std::string Sparkline(const std::vector<SparkPoint>& points, Nanos length, size_t width, const std::string& indent);

}  // namespace muster
