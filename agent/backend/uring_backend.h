#pragma once
#include <memory>

#include "agent/backend/backend.h"

namespace muster {

// What Open tries to use. Everything falls back by itself when the kernel or memlock refuses; switching a feature off
// takes the same path as a refusal, for tests and for comparing.
struct UringOptions {
  bool defer_taskrun = true;  // SINGLE_ISSUER | DEFER_TASKRUN, else COOP_TASKRUN
  bool taskrun_flags = true;  // either of them; else a plain ring
  bool registered_ring = true;
  bool registered_files = true;
  bool registered_buffers = true;
};

// Files and block devices through io_uring: one ring a worker thread, SINGLE_ISSUER + DEFER_TASKRUN, registered ring,
// files and buffers, batched submission; each feature falls back when the kernel or memlock refuses, and Describe
// says so. Trim is FALLOCATE with PUNCH_HOLE | KEEP_SIZE, flush is FSYNC with DATASYNC, FUA is RWF_DSYNC.
//
// Submit hands all it accepted to the kernel with one system call before it returns. Reap enters the kernel only when
// the completion queue is empty and the kernel has flagged deferred work. An operation that ends short of its length
// is continued with the rest (a signal, a page boundary) while it makes progress; at the end of a file it is kShort.
// The kernel has no per-operation timeout: limits.op_timeout is the engine's to watch.
//
// Open fails with RING_SETUP (io_uring absent or disabled), BAD_DESCRIPTOR or BACKEND_DEPTH.
// At most 32,768 operations are outstanding, whatever the depth asked.
std::unique_ptr<Backend> MakeUringBackend(const UringOptions& options = {});

}  // namespace muster
