#pragma once
#include <memory>

#include "agent/backend/backend.h"

namespace muster {

// Files and block devices through io_uring: one ring a worker thread, SINGLE_ISSUER + DEFER_TASKRUN, registered ring,
// files and buffers, batched submission; each feature falls back when the kernel or memlock refuses, and Describe
// says so. Trim is FALLOCATE with PUNCH_HOLE | KEEP_SIZE, flush is FSYNC with DATASYNC.
std::unique_ptr<Backend> MakeUringBackend();

}  // namespace muster
