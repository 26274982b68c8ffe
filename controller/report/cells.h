#pragma once
#include <string>

#include "common/stats/histogram.h"
#include "controller/aggregate/figures.h"

namespace muster {

// One figure as people read it.
std::string CountCell(double value);                                // 12,345 or 12.3
std::string MegabytesCell(double bytes_per_second);                 // decimal megabytes a second
std::string PercentileCell(const Histogram& histogram, double q);   // "n too small" with fewer than 10 operations above
std::string LatencyCell(const Histogram& histogram, double nanos);  // "-" without operations
std::string MaxCell(const KindFigures& kind);                       // drained and never ended operations included
std::string DepthCell(double depth);
std::string TimeCell(int64_t wall_micros);  // 2026-11-30 16:45:00 UTC

}  // namespace muster
