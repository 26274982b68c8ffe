#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "agent/backend/backend.h"
#include "agent/engine/buffer_pool.h"
#include "agent/engine/depth_meter.h"
#include "agent/engine/engine.h"
#include "agent/engine/op_source.h"
#include "agent/engine/open_queue.h"
#include "agent/engine/worker_plan.h"
#include "common/stats/interval_recorder.h"

namespace muster {

// What the engine tells all its workers, and they tell each other. Lock-free.
struct LoopControl {
  std::atomic<int64_t> stop_after{INT64_MAX};  // last interval
  std::atomic<bool> abort{false};              // stop now and end what is outstanding
  std::atomic<bool> overloaded{false};         // stop_after has been lowered because of it
  std::atomic<bool> orphaned{false};           // the engine is gone: touch nothing of it, leak and leave
};

// What every worker of a phase does alike.
struct LoopConfig {
  Nanos interval = kSecond;
  Nanos op_timeout = 90 * kSecond;
  int64_t warmup = 0;            // the window begins with this interval
  std::optional<Workload> work;  // measure
  std::optional<FillSpec> fill;  // fill
  uint64_t content_seed = 0;     // of this phase; unlike in every phase of every run
};

// Why a worker stopped submitting.
enum class EndReason : uint8_t { kNone, kLastInterval, kAbort, kLease, kFillDone, kFillError, kRecorders, kBackend };

// How the phase ended for one worker; to be read when finished() is true.
struct LoopResult {
  EndReason reason = EndReason::kNone;
  uint64_t straggle_count = 0;
  std::vector<StraggleOp> stragglers;  // at least the oldest 256
  bool poisoned = false;               // operations were abandoned
  // kFillError: the first write that failed.
  PlannedOp failed_op;
  IoOutcome failed_outcome = IoOutcome::kOk;
  int32_t failed_code = 0;
};

// One worker's loop without its thread: poll, edge check, record, refill, submit. Everything a test wants to know
// happens in Step, on the clock it is given; waiting belongs to the caller. All methods on one thread, but
// first_submit().
//
// One iteration takes one clock sample after the poll, which stamps all its completions (`done`) and is compared with
// the interval's edge before any of them is recorded, and one right before Submit, which stamps `due` (closed loop)
// and `issued` and is compared with edge and lease end before anything goes out. New content for writes is made
// between the two. Nothing here allocates, locks or does an atomic read-modify-write per operation.
//
// stamp error: from the poll before (or the end of the wait before) to the stamp of this poll, if it returned
//   operations: so long an operation may have been finished before it was stamped done. It contains the handling of
//   the previous batch and the submit call.
// poll gap: the same for every poll: the longest time the worker looked away without being in a wait.
class WorkerLoop {
 public:
  // `backends`: one for each lane of the plan, opened. They and the references outlive the loop. `published` is called
  // after each hand-over of a set.
  WorkerLoop(const LoopConfig& config, const WorkerPlan& plan, uint32_t worker, std::span<Backend* const> backends,
             const BufferPool& buffers, IntervalRecorder& recorder, const Clock& clock, const FleetTime& fleet,
             const LeaseEnd& lease, LoopControl& control, std::function<void()> published);
  ~WorkerLoop();

  // Interval 0 begins at fleet instant `t0`. Call when it has come.
  void Begin(Nanos t0_fleet);
  struct Next {
    Nanos wait_until = 0;  // nothing to do before, unless an operation ends; <= now(): step again at once
    bool starved = false;  // the reporter has all recorder sets: do not wait in the backend, step again soon
  };
  // One iteration; never blocks beyond the backend's calls.
  Next Step();
  // To be called after a wait and before the next Step.
  void Woke();
  // Instead of a wait: looks at clock and completions until something ends or `until` has come. The next Step goes on
  // from there.
  void Spin(Nanos until);
  // Gives up on recorder sets: stops, the figures since the last edge are lost and the phase is faulty.
  void GiveUpRecorders();

  bool finished() const { return state_ == State::kFinished; }
  bool orphaned() const { return control_.orphaned.load(std::memory_order_relaxed); }
  bool paced() const { return open_; }
  Nanos now() const { return now_; }  // the last clock sample
  const LoopResult& result() const { return result_; }
  // Instant of the first submission, kNever before. Any thread.
  Nanos first_submit() const { return first_submit_.load(std::memory_order_acquire); }

  // How often commands from other threads are looked at, at least.
  static constexpr Nanos kCommandPoll = 10 * kMillisecond;
  static constexpr Nanos kDrainGrace = 5 * kSecond;  // beyond the op timeout
  static constexpr size_t kMaxStragglers = 256;

 private:
  enum class State : uint8_t { kRunning, kDraining, kFinished };
  enum class SlotState : uint8_t { kIdle, kOffered, kWire };

  struct Slot {
    Nanos due = 0;
    Nanos issued = 0;
    PlannedOp op;
    uint32_t group = 0;
    uint32_t stream = 0;     // index into streams_
    uint32_t lane = 0;       // index into lanes_
    uint32_t straggler = 0;  // 1 + index into result_.stragglers; 0: none
    SlotState state = SlotState::kIdle;
    bool in_window = false;
    bool found_free = false;
    bool fresh = false;  // idle: its buffer already holds new content
  };

  // A backend with what is yet to be handed to it: a full one keeps only its own operations waiting.
  struct Lane {
    Backend* backend = nullptr;
    std::vector<IoOp> offer;  // [head, tail) is yet to be accepted
    size_t head = 0;
    size_t tail = 0;
    size_t stamped = 0;       // operations before it have their due stamp
    size_t batch = SIZE_MAX;  // operations a Submit
    bool full = false;        // the last Submit left something
  };

  struct Group {
    uint32_t initiator = 0;
    uint32_t first_stream = 0;  // index into streams_
    uint32_t first_lane = 0;    // index into lanes_, with the next one
    uint32_t lanes = 1;
    DepthMeter meter;
    Nanos full_since = kNever;  // operations are due that cannot be handed over
    Nanos time_full = 0;        // of this interval
    uint32_t refused = 0;       // operations offered that the backend has seen and not taken
    std::array<KindTotals, kOpKinds> totals;
    // Open loop only.
    std::unique_ptr<OpenQueue> queue;
    std::vector<uint32_t> free_slots;
    size_t listed = 0;  // stragglers of the queue that are in the list

    uint64_t waiting() const { return refused + (queue ? queue->waiting() : 0); }
  };

  // worker_loop.cc: the iteration.
  void Poll();
  void RecordBatch();
  void Complete(const IoCompletion& completion);
  void Refill();
  void Collect();
  void Place(uint32_t slot, const PlannedOp& op);
  void Offer(Lane& lane);
  void OfferBatch(Lane& lane);
  void StampOffered(Lane& lane, size_t end, Nanos t);
  bool SomeLaneFull(const Group& group) const;
  void AdvanceArrivals(Nanos t, bool inclusive);
  void NoteFull(Nanos t);
  void PrepareContent();
  Nanos WaitUntil() const;

  // worker_edges.cc: intervals, ends, drain.
  Nanos EdgeOf(int64_t interval) const;
  void RefreshEdge();
  bool CloseIntervals(Nanos t);
  void CloseInterval(Nanos edge, IntervalSet* next);
  void WriteFigures(Nanos t);
  void CheckOverload();
  void CheckCommands();
  void StopNow(EndReason reason);
  void EnterDrain(Nanos end, EndReason reason, bool issue_backlog);
  void ListStragglers();
  uint32_t AddStraggler(uint32_t group, OpKind kind, Nanos due);
  bool Drained() const;
  void FinishDrain();
  void RecordUnfinished(uint32_t group, OpKind kind, Nanos due, bool in_window, uint32_t straggler);

  const LoopConfig config_;
  const BufferPool& buffers_;
  IntervalRecorder& recorder_;
  const Clock& clock_;
  const FleetTime& fleet_;
  const LeaseEnd& lease_;
  LoopControl& control_;
  const std::function<void()> published_;
  const bool open_;
  const bool makes_content_;
  const uint64_t content_seed_;
  uint64_t content_number_ = 0;

  State state_ = State::kRunning;
  Nanos now_ = 0;
  Nanos stamp_ = 0;      // of the last poll
  Nanos last_look_ = 0;  // last poll's stamp or end of a wait
  Nanos applied_ = 0;    // the last instant whose changes are in the figures
  size_t pending_ = 0;   // completions reaped and not yet recorded
  bool starved_ = false;
  Nanos gap_ = 0;              // of the last poll, until it is put into a set
  Nanos batch_gap_ = 0;        // of the last poll that returned something
  bool polled_ = false;        // by Spin, for the next Step
  bool made_content_ = false;  // since the last poll
  uint32_t wire_ = 0;          // accepted and not reaped, all groups
  uint32_t full_groups_ = 0;

  std::vector<Slot> slots_;
  std::vector<Group> groups_;
  std::vector<OpSource> streams_;
  std::optional<FillSource> fill_;
  std::vector<uint32_t> idle_;  // closed loop: slots that want an operation
  std::vector<Lane> lanes_;
  bool any_full_ = false;
  bool connections_ = false;           // a lane reaches one object, its number 0
  std::vector<uint32_t> object_lane_;  // fill over connections: by object
  size_t first_lane_ = 0;              // that the next poll begins with
  bool more_ = false;                  // the last poll took as many completions as it could: there may be more
  std::vector<uint32_t> stream_lane_;  // by index into streams_
  std::vector<IoCompletion> completions_;
  Nanos next_arrival_ = kNever;

  IntervalSet* set_ = nullptr;
  Nanos t0_fleet_ = 0;
  int64_t interval_ = 0;
  Nanos begin_ = 0;
  Nanos next_edge_ = kNever;
  uint32_t fleet_version_ = 0;
  Nanos window_from_ = kNever;  // local begin of the window; kNever before it
  bool ran_ = false;            // in the current interval

  bool backend_aborted_ = false;
  Nanos drain_deadline_ = kNever;
  Nanos end_ = 0;
  bool issue_backlog_ = false;
  LoopResult result_;
  std::atomic<Nanos> first_submit_{kNever};
};

}  // namespace muster
