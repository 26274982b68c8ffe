#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/engine/engine.h"
#include "common/plan/layout.h"
#include "common/plan/plan.h"
#include "common/stats/interval_recorder.h"

namespace muster {

struct StreamPlan {
  uint32_t stream = 0;
  StreamExtent extent;
  double rate = 0;  // operations per second, open loop
};

// The streams of one initiator on one worker.
struct GroupPlan {
  uint32_t initiator = 0;  // fleet-wide
  uint32_t slots = 0;      // operations it may have with the backend: depth x streams, open loop its share of the cap
  std::vector<StreamPlan> streams;  // none in a fill
};

struct WorkerPlan {
  std::vector<GroupPlan> groups;
  uint32_t slots = 0;     // of all groups
  size_t slot_bytes = 0;  // buffer of one slot, whole pages
  RecorderShape shape;
};

// What each of at most `cpus` worker threads carries. Pure.
//
// Streams go to workers in contiguous runs of nearly equal length (not round-robin): as even, and an initiator then
// meets one or two workers instead of all of them, so that recorders, which exist per worker and initiator, do not
// multiply with the number of CPUs. In open loop `max_outstanding` of an initiator is split exactly over its streams'
// workers; should a worker's share be zero, fewer workers are used.
//
// Typed errors: SET_TOO_SMALL (a stream has no whole block to work on), BLOCK_ALIGNMENT (block not a multiple of the
// object's logical block), LOAD_EMPTY, RATE_MISSING, OBJECT_MISSING.
absl::StatusOr<std::vector<WorkerPlan>> PlanWorkers(const PhaseSpec& spec, const EngineTarget& target, uint32_t cpus);

// For the result: "0: initiator 0 streams 0-7; 1: initiator 0 streams 8-15".
std::string DescribeMapping(const std::vector<WorkerPlan>& workers);

}  // namespace muster
