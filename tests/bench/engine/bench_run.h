#pragma once
#include <cstdint>
#include <memory>

#include "agent/engine/engine.h"
#include "common/stats/histogram.h"

namespace muster::bench {

// What one measured run of the engine came to: the window's intervals, warm-up left out.
struct RunFigures {
  double seconds = 0;
  uint64_t operations = 0;
  double cpu_seconds = 0;  // of the whole process, engine threads and all
  Histogram response;
  Histogram lateness;
  Nanos stamp_error = 0;
  uint64_t failed = 0;
};

// Runs `workload` over `objects` with one initiator in this process and ends it with exit code 3 when that fails.
// One second of warm-up; `seconds` is rounded up to whole intervals of a second.
RunFigures RunEngine(const Workload& workload, const EngineTarget& target, const EngineOptions& options,
                     double seconds);

}  // namespace muster::bench
