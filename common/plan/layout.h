#pragma once
#include <cstdint>
#include <vector>

#include "common/plan/plan.h"

namespace muster {

// Where one stream works. Pure functions of the plan: controller (plan output, fill) and agents compute the same.
struct StreamExtent {
  uint32_t slot = 0;         // object
  uint64_t area_offset = 0;  // random: operations are drawn from [area_offset, area_offset + area_length)
  uint64_t area_length = 0;
  uint64_t slice_offset = 0;  // sequential: this stream's own contiguous slice, wrapping inside it
  uint64_t slice_length = 0;
};

// The objects of a target for a workload at the largest rung. One object "data" of `size` for null,
// block and files: one; size / initiators_max each for per_initiator; size / (initiators_max * streams_max) for
// per_stream; LUNs: size / number of LUNs each, initiator i works on LUN i modulo that number. Sizes are rounded down
// to whole blocks of `block`.
std::vector<ObjectSpec> LayOutObjects(const Target& target, uint64_t size, uint64_t block, uint32_t initiators_max,
                                      uint32_t streams_max);

// The extent of stream `stream` (0..T-1) of initiator `initiator` (0..N-1). shared: the area is the whole object and
// slices are dealt over all N*T streams; partition: the initiator's fixed slice is size / initiators_max, and its T
// streams share (random) or split (sequential) it. All edges are whole blocks. slice_length 0: the set is too small.
StreamExtent ExtentOf(const Target& target, const std::vector<ObjectSpec>& objects, const Workload& workload,
                      uint32_t initiators, uint32_t initiators_max, uint32_t initiator, uint32_t stream);

// Splits `objects` into `agents` runs of contiguous ranges of nearly equal bytes, edges on whole `block`s.
std::vector<std::vector<FillExtent>> DealFill(const std::vector<ObjectSpec>& objects, uint64_t block, uint32_t agents);

// Initiators are spread over agents first, then packed: initiator i goes to agent i % agents.
std::vector<std::vector<uint32_t>> DealInitiators(uint32_t initiators, uint32_t agents);

}  // namespace muster
