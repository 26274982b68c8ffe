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
  double rate = 0;    // operations per second, open loop
  uint32_t lane = 0;  // index into the worker's lanes
};

// The streams of one initiator on one worker.
struct GroupPlan {
  uint32_t initiator = 0;  // fleet-wide
  uint32_t slots = 0;      // operations it may have with the backend: depth x streams, open loop its share of the cap
  std::vector<StreamPlan> streams;  // none in a fill
};

// What one backend of a worker carries: all of it (rings, null), or one connection of one initiator.
struct LanePlan {
  uint32_t initiator = 0;   // fleet-wide; of a sole backend: the first one
  uint32_t connection = 0;  // of the initiator, from 0
  uint32_t object = 0;      // over a connection: the one object (LUN) it reaches; otherwise all are reached
  uint32_t slots = 0;       // operations it may have at most
};

struct WorkerPlan {
  std::vector<GroupPlan> groups;
  std::vector<LanePlan> lanes;  // at least one; those of one initiator follow each other
  bool connections = false;     // lanes are connections
  uint32_t slots = 0;           // of all groups
  size_t slot_bytes = 0;        // buffer of one slot, whole pages
  RecorderShape shape;
};

// What each of at most `cpus` worker threads carries. Pure.
//
// Streams go to workers in contiguous runs of nearly equal length (not round-robin): as even, and an initiator then
// meets one or two workers instead of all of them, so that recorders, which exist per worker and initiator, do not
// multiply with the number of CPUs. In open loop `max_outstanding` of an initiator is split exactly over its streams'
// workers; should a worker's share be zero, fewer workers are used.
//
// Where a target is reached over connections (EngineTarget::connections), a connection is what goes to a worker: all
// its streams with it. An initiator's streams go to its connections in contiguous runs of nearly equal length.
//
// Typed errors: SET_TOO_SMALL (a stream has no whole block to work on), BLOCK_ALIGNMENT (block not a multiple of the
// object's logical block), LOAD_EMPTY, RATE_MISSING, OBJECT_MISSING.
absl::StatusOr<std::vector<WorkerPlan>> PlanWorkers(const PhaseSpec& spec, const EngineTarget& target, uint32_t cpus);

// Bytes of the buffers of all workers and of their connections.
uint64_t BufferBytes(const std::vector<WorkerPlan>& workers, const EngineTarget& target);

// For the result: "0: initiator 0 streams 0-7; 1: initiator 0 streams 8-15".
std::string DescribeMapping(const std::vector<WorkerPlan>& workers);

}  // namespace muster
