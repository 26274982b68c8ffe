#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/backend/backend.h"
#include "common/base/clock.h"
#include "common/plan/plan.h"
#include "common/stats/held_histograms.h"
#include "common/stats/op_stats.h"

namespace muster {

// Fleet time as this agent sees it: local = fleet - offset. Written by the session thread at each better probe, read
// by workers at each interval edge. Lock-free; both values are of one probe (sequence-checked).
class FleetTime {
 public:
  struct Estimate {
    Nanos offset = 0;  // fleet clock minus local clock
    Nanos error = 0;   // bound at `taken`; widens by 100 ppm of its age
    Nanos taken = 0;   // local
  };
  void Set(const Estimate& estimate);
  Estimate Get() const;
  // The bound now, widened by the estimate's age.
  Nanos ErrorAt(Nanos local_now) const;
  // Changes with every Set: cheap to compare on the hot path.
  uint32_t version() const { return version_.load(std::memory_order_acquire); }

 private:
  std::atomic<uint32_t> version_{0};
  std::atomic<Nanos> offset_{0}, error_{0}, taken_{0};
};

// The instant (local clock) after which workers must not submit: the end of the lease. Extended by the session.
using LeaseEnd = std::atomic<Nanos>;

// What the engine says while it runs. Called from the engine's reporter thread; must not block for long (hand over
// to a queue). Deltas come in interval order, one an interval, none skipped; Ended comes last, exactly once.
class EngineListener {
 public:
  virtual ~EngineListener() = default;
  // Instant of the first submission of any worker, local clock, and how late workers woke up after the start.
  virtual void OnFirstIo(Nanos first_io_local, Nanos wake_lateness) = 0;
  virtual void OnInterval(IntervalDelta delta) = 0;
  // Histograms that intervals delivered before this left out (EngineOptions::report_bound). At the edges of the window
  // and before Ended.
  virtual void OnHeld(HeldHistograms held) = 0;
  // Fill only: bytes written so far (also once an interval).
  virtual void OnProgress(uint64_t bytes_done, uint64_t bytes_total) = 0;
  // All workers have ended and every recorder has been emptied. `status` is not OK for a fill that could not write
  // (typed error with object and offset) or an engine fault; figures measured before stay valid.
  virtual void OnEnded(PhaseTotals totals, absl::Status status) = 0;
};

struct EngineOptions {
  std::vector<int> cpus;     // allowed; at most one worker a CPU
  uint32_t max_workers = 0;  // 0: as many as CPUs
  bool pin = false;
  bool may_spin = false;           // pacing may spin (alone on the host, threads <= CPUs)
  uint64_t max_buffer_memory = 0;  // bytes; 0: a quarter of RAM
  // Bytes on the wire of one initiator's part of an interval; beyond it its histograms come once a window.
  size_t report_bound = size_t{64} << 10;
};

struct EngineTarget {
  Target target;                       // for backend choice
  std::vector<BackendObject> objects;  // by slot; descriptors outlive the engine
  // Connections of each initiator (kPerStream: one a stream), a backend instance each; 0: none, a worker has one
  // backend for all it carries.
  uint32_t connections = 0;
  // Memory that a connection takes by itself beside the buffers, bytes; counted with them.
  uint64_t connection_bytes = 0;
};

// Runs one phase on worker threads: pacer -> op source -> backend -> recorder (see agent/README.md).
// All methods are called from one thread (the session's); none blocks but Prepare and Join.
class Engine {
 public:
  // Allocates buffers, recorders and page pools, opens backends on their worker threads and parks the workers at the
  // start gate. Typed errors: BUFFER_MEMORY, RECORDER_MEMORY, SET_TOO_SMALL, BLOCK_ALIGNMENT, and the backends' own.
  // `deadline` bounds it (local clock). The references must outlive the engine.
  static absl::StatusOr<std::unique_ptr<Engine>> Prepare(const PhaseSpec& spec, const EngineTarget& target,
                                                         const EngineOptions& options, const Clock& clock,
                                                         const FleetTime& fleet, const LeaseEnd& lease,
                                                         EngineListener& listener, Nanos deadline);
  virtual ~Engine() = default;

  // How streams were mapped and what the backends negotiated: (name, value), for the result.
  virtual std::vector<std::pair<std::string, std::string>> Describe() const = 0;
  virtual uint64_t MemoryBytes() const = 0;
  // Workers begin at fleet instant `t0`; interval k is [t0 + k*D, t0 + (k+1)*D). A fill has no last interval.
  virtual void Start(Nanos t0_fleet) = 0;
  // Measure: no operation becomes due at or after the end of interval `k` (default: warmup + window - 1; may be
  // lowered to the current one, never below what is past). Fill: stop at the next edge.
  virtual void StopAfter(int64_t interval) = 0;
  // Stops now: nothing further is submitted, outstanding operations are drained until the drain deadline (op timeout
  // + 5 s), the interval that runs is closed as partial drain. Ends with OnEnded like any other end.
  virtual void Abort() = 0;
  virtual bool ended() const = 0;
  // Waits for threads to finish until `deadline`; false: some are stuck in a system call (poisoned).
  virtual bool Join(Nanos deadline) = 0;
};

}  // namespace muster
