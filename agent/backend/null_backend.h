#pragma once
#include <memory>

#include "agent/backend/backend.h"
#include "common/plan/plan.h"

namespace muster {

// No I/O. Completes each operation `latency` after its submission (constant, uniform 0..2x, exponential), in order of
// completion time; programmed stalls hold completions back; `error_share` of operations end with EIO, chosen by seed.
// With latency 0 an operation is done at the next Reap. Cost at latency 0: a few ns an operation.
std::unique_ptr<Backend> MakeNullBackend(const NullTarget& target, uint64_t seed);

}  // namespace muster
