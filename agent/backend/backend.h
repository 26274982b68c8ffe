#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"

namespace muster {

// What an operation does, for a backend.
enum class IoKind : uint8_t { kRead, kWrite, kFlush, kTrim };

inline constexpr uint16_t kIoFua = 1;  // durable when done (RWF_DSYNC, SCSI FUA)

// 48 bytes, trivially copyable; a backend copies what it needs at Submit.
struct IoOp {
  uint64_t offset = 0;
  uint8_t* buffer = nullptr;  // from the worker's pool; owned by the engine; untouched by it until completion
  uint64_t tag = 0;           // handed back in the completion
  uint32_t bytes = 0;
  uint32_t object = 0;  // slot
  IoKind kind = IoKind::kRead;
  uint16_t flags = 0;
  uint32_t buffer_index = 0;  // of the registered region the buffer lies in
};

// How an operation ended. Mapped 1:1 on statistics' Outcome by the engine.
enum class IoOutcome : uint8_t { kOk, kIo, kTimeout, kNoSpace, kShort, kUnsupported, kAborted, kOther };

struct IoCompletion {
  uint64_t tag = 0;
  IoOutcome outcome = IoOutcome::kOk;
  int32_t native_code = 0;  // errno (positive); iscsi: a SCSI status and sense too, see agent/backend/iscsi/sense.h
  uint32_t bytes = 0;
};

// An opened object. Descriptors are owned by agent/target and outlive every backend that uses them.
struct BackendObject {
  int fd = -1;                   // -1 for null
  uint64_t size = 0;             // bytes an operation may touch: [0, size) in the offsets of IoOp
  uint64_t base = 0;             // bytes the backend adds to every offset (a labelled device is used from 1 MiB on);
                                 // with a base, operations beyond `size` must be refused (EINVAL)
  uint32_t logical_block = 512;  // alignment the object needs
  bool is_block_device = false;
};

// Memory a backend may register; regions outlive the backend.
struct BufferRegion {
  uint8_t* base = nullptr;
  size_t bytes = 0;
};

struct BackendLimits {
  uint32_t depth = 1;  // operations the engine will ever have outstanding here
  Nanos op_timeout = 90 * kSecond;
};

// Capabilities and negotiated parameters, as found at Open; goes into the result as (name, value) pairs.
struct BackendDescription {
  uint32_t max_outstanding = 0;
  uint32_t max_transfer = 0;  // bytes; 0: no limit of its own
  uint32_t submit_batch = 0;  // operations a Submit should carry at most, so that none waits long for those after it
                              // in the same system call; 0: any number
  bool registered_buffers = false;
  bool registered_files = false;
  std::vector<std::pair<std::string, std::string>> parameters;  // e.g. ("ring flags", "SINGLE_ISSUER|DEFER_TASKRUN")
};

// One instance a connection (uring, null: one a worker thread). All methods, constructor excepted, are called on one
// thread, the worker's. Nothing throws. No allocation after Open.
class Backend {
 public:
  virtual ~Backend() = default;
  // May block until `deadline` (absolute, CLOCK_MONOTONIC). Typed error on failure; the instance is then unusable.
  virtual absl::Status Open(std::span<const BackendObject> objects, std::span<const BufferRegion> buffers,
                            const BackendLimits& limits, Nanos deadline) = 0;
  virtual BackendDescription Describe() const = 0;
  // Accepts a prefix of `ops` and starts it; returns its length. Fewer than given is "full", not an error. Never
  // blocks. An operation that cannot even be started completes with its outcome through Reap.
  // `now` is a stamp taken just before the call.
  virtual size_t Submit(std::span<const IoOp> ops, Nanos now) = 0;
  // Takes finished operations; never blocks. `now` lets time-driven backends (null) decide what is due.
  virtual size_t Reap(std::span<IoCompletion> out, Nanos now) = 0;
  // Waits until an operation may have finished or `deadline` has passed; EINTR and early returns are allowed.
  // Only called when this is the thread's sole instance (always so for uring and null).
  virtual void WaitUntil(Nanos deadline) = 0;
  // Readable when Reap may return something; -1 when the backend is driven by time alone (NextTimer).
  virtual int WaitFd() const = 0;
  // The next instant at which Reap has something to do by itself; kNever if none.
  virtual Nanos NextTimer() const = 0;
  // The phase starts at `t0` (local clock): time-programmed backends (null stalls) count from here.
  virtual void PhaseStarts(Nanos /*t0*/) {}
  // Asks every outstanding operation to end (best effort, never blocks); they still come back through Reap.
  virtual void Abort() = 0;
  // Number of operations accepted and not yet reaped.
  virtual uint32_t outstanding() const = 0;
  // What has happened since Open, as (name, count) with names for people; allocates, so not for the hot path. Names of
  // durations end in " ns".
  virtual std::vector<std::pair<std::string, uint64_t>> Counters() const { return {}; }
  // Time without a connection since Open, an outage that lasts included. No operation is accepted then.
  virtual Nanos down_time() const { return 0; }
  // Releases everything. With operations outstanding it must not free what they use: it leaks ring and context
  // knowingly and returns false (the agent is then poisoned).
  virtual bool Close() = 0;
};

}  // namespace muster
