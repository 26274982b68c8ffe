#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/engine/lane_wait.h"
#include "agent/engine/worker_loop.h"

namespace muster {

// For whom a backend is.
struct BackendSeat {
  uint32_t worker = 0;
  LanePlan lane;
};
// Makes a backend; called on the worker's thread.
using BackendFactory = std::function<absl::StatusOr<std::unique_ptr<Backend>>(const BackendSeat& seat)>;

// Where workers wait between Prepare and Start.
class StartGate {
 public:
  enum class State { kClosed, kOpen, kCancelled };
  void Open(Nanos t0_fleet);
  void Cancel();
  // Waits until it is opened or cancelled; kClosed is never returned.
  State Wait(Nanos& t0_fleet);
  State state() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kClosed;
  Nanos t0_fleet_ = 0;
};

// Wakes the reporter. A ring that comes while it is awake may be missed: it also wakes by itself every few ms.
class Bell {
 public:
  void Ring() { rung_.notify_one(); }
  void WaitFor(Nanos timeout);

 private:
  std::mutex mutex_;
  std::condition_variable rung_;
};

// One worker and all it needs. Lives as long as its thread, which may outlive the engine when a system call never
// returns; `control.orphaned` then tells it not to touch what the engine borrowed.
struct WorkerState {
  uint32_t index = 0;
  WorkerPlan plan;
  std::unique_ptr<BufferPool> buffers;
  std::unique_ptr<IntervalRecorder> recorder;
  std::vector<std::unique_ptr<Backend>> backends;  // its thread's, by lane
  std::unique_ptr<WorkerLoop> loop;                // its thread's until `finished`, but first_submit()
  std::vector<BackendDescription> descriptions;    // after `opened`, by lane
  // Nanos between the start and the first look at the clock after it; -1 before.
  std::atomic<Nanos> wake_lateness{-1};
  std::vector<ConnectionTotals> connections;  // after `finished`
  std::atomic<bool> finished{false};          // the loop has ended; its result and recorder can be read
};

// What the threads of one phase share.
struct EngineShared {
  LoopConfig config;
  EngineTarget target;
  EngineOptions options;
  const Clock* clock = nullptr;
  const FleetTime* fleet = nullptr;
  const LeaseEnd* lease = nullptr;
  LoopControl control;
  StartGate gate;
  Bell bell;
  BackendFactory make_backend;
  std::vector<std::unique_ptr<WorkerState>> workers;

  // How Open went, by worker; and which threads have returned.
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::optional<absl::Status>> opened;
  std::vector<bool> exited;
};

// Body of a worker thread: opens its backends, waits at the gate, drives the loop, closes the backends. With operations
// abandoned it leaks backend and buffers knowingly: the kernel may still write there.
void RunWorker(const std::shared_ptr<EngineShared>& shared, uint32_t index, Nanos open_deadline);

}  // namespace muster
