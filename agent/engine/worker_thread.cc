#include "agent/engine/worker_thread.h"

#include <time.h>

#include <algorithm>

#include "common/base/status.h"
#include "common/base/thread.h"
#include "fmt/format.h"

namespace muster {
namespace {

constexpr Nanos kSpinBelow = 200 * kMicrosecond;  // a sleep this short is spun instead, where that is allowed
constexpr Nanos kStarvedLimit = 30 * kSecond;     // without a clean recorder set, lease permitting
constexpr Nanos kStartSlice = 50 * kMillisecond;  // waiting for the start, commands are looked at this often

// Absolute CLOCK_MONOTONIC; returns early on a signal.
void SleepUntil(Nanos instant) {
  const timespec ts{.tv_sec = instant / kSecond, .tv_nsec = instant % kSecond};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, nullptr);
}

// Backends whose operations may still come back: reachable, never destroyed.
void KeepForever(std::unique_ptr<Backend> backend) {
  static std::mutex mutex;
  static auto* kept = new std::vector<std::unique_ptr<Backend>>();
  std::lock_guard lock(mutex);
  kept->push_back(std::move(backend));
}

class WorkerThread {
 public:
  WorkerThread(EngineShared& shared, WorkerState& state) : shared_(shared), state_(state) {}

  absl::Status Open(Nanos deadline) {
    SetThreadName(fmt::format("muster-w{}", state_.index));
    SetTimerSlack(1);
    if (shared_.options.pin && state_.index < shared_.options.cpus.size()) {
      MUSTER_RETURN_IF_ERROR(PinThread(shared_.options.cpus[state_.index]));
    }
    std::vector<Backend*> backends;
    for (const LanePlan& lane : state_.plan.lanes) {
      MUSTER_ASSIGN_OR_RETURN(auto made, shared_.make_backend({.worker = state_.index, .lane = lane}));
      state_.backends.push_back(std::move(made));
      Backend& backend = *state_.backends.back();
      std::span<const BackendObject> objects = shared_.target.objects;
      if (state_.plan.connections) objects = objects.subspan(lane.object, 1);
      MUSTER_RETURN_IF_ERROR(backend.Open(objects, state_.buffers->regions(),
                                          {.depth = lane.slots, .op_timeout = shared_.config.op_timeout}, deadline));
      state_.descriptions.push_back(backend.Describe());
      backends.push_back(&backend);
    }
    MUSTER_RETURN_IF_ERROR(wait_.Add(backends));
    // Made on this thread, so that what it touches is near it.
    state_.loop = std::make_unique<WorkerLoop>(shared_.config, state_.plan, state_.index, backends, *state_.buffers,
                                               *state_.recorder, *shared_.clock, *shared_.fleet, *shared_.lease,
                                               shared_.control, [this] { shared_.bell.Ring(); });
    return absl::OkStatus();
  }

  void Run() {
    Nanos t0_fleet = 0;
    if (shared_.gate.Wait(t0_fleet) == StartGate::State::kCancelled) return;
    if (!WaitForStart(t0_fleet)) return;
    WorkerLoop& loop = *state_.loop;
    loop.Begin(t0_fleet);
    state_.wake_lateness.store(std::max<Nanos>(0, loop.now() - LocalOf(t0_fleet)), std::memory_order_release);
    Drive(loop);
  }

  // What the connections went through, before they are gone.
  void TakeTotals() {
    if (!state_.plan.connections || shared_.control.orphaned.load()) return;
    for (size_t i = 0; i < state_.backends.size(); ++i) {
      const LanePlan& lane = state_.plan.lanes[i];
      state_.connections.push_back({.initiator = lane.initiator,
                                    .connection = lane.connection,
                                    .down = state_.backends[i]->down_time(),
                                    .counters = state_.backends[i]->Counters()});
    }
  }

  void Close() {
    bool leaked = false;
    for (std::unique_ptr<Backend>& backend : state_.backends) {
      if (!shared_.control.orphaned.load() && backend->Close()) continue;
      KeepForever(std::move(backend));
      leaked = true;
    }
    if (leaked) state_.buffers->Leak();
  }

 private:
  Nanos LocalOf(Nanos fleet) const { return fleet - shared_.fleet->Get().offset; }
  bool Orphaned() const { return shared_.control.orphaned.load(std::memory_order_relaxed); }

  // The start instant follows better estimates while it is waited for.
  bool WaitForStart(Nanos t0_fleet) {
    for (;;) {
      if (Orphaned()) return false;
      const Nanos now = shared_.clock->Now();
      const Nanos start = LocalOf(t0_fleet);
      if (now >= start) return true;
      if (shared_.control.abort.load(std::memory_order_relaxed)) return false;
      if (shared_.options.may_spin && start - now < kSpinBelow) continue;
      SleepUntil(std::min(now + kStartSlice, shared_.options.may_spin ? start - kSpinBelow : start));
    }
  }

  void Drive(WorkerLoop& loop) {
    const bool spin = shared_.options.may_spin && loop.paced();
    Nanos starved_since = kNever;
    while (!loop.finished()) {
      const WorkerLoop::Next next = loop.Step();
      if (loop.finished()) return;
      if (next.starved) {
        starved_since = std::min(starved_since, loop.now());
        const Nanos limit = std::min(starved_since + kStarvedLimit, shared_.lease->load(std::memory_order_relaxed));
        if (loop.now() >= limit) {
          loop.GiveUpRecorders();
        } else {
          SleepUntil(next.wait_until);
        }
        continue;
      }
      starved_since = kNever;
      if (next.wait_until <= loop.now()) continue;
      Nanos until = next.wait_until;
      if (spin) {
        if (until - loop.now() < kSpinBelow) {
          loop.Spin(until);
          if (Orphaned()) return;
          continue;
        }
        until -= kSpinBelow;
      }
      wait_.WaitUntil(until);
      if (Orphaned()) return;
      loop.Woke();
    }
  }

  EngineShared& shared_;
  WorkerState& state_;
  LaneWait wait_;
};

}  // namespace

void StartGate::Open(Nanos t0_fleet) {
  {
    std::lock_guard lock(mutex_);
    if (state_ != State::kClosed) return;
    state_ = State::kOpen;
    t0_fleet_ = t0_fleet;
  }
  changed_.notify_all();
}

void StartGate::Cancel() {
  {
    std::lock_guard lock(mutex_);
    if (state_ != State::kClosed) return;
    state_ = State::kCancelled;
  }
  changed_.notify_all();
}

StartGate::State StartGate::Wait(Nanos& t0_fleet) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return state_ != State::kClosed; });
  t0_fleet = t0_fleet_;
  return state_;
}

StartGate::State StartGate::state() const {
  std::lock_guard lock(mutex_);
  return state_;
}

void Bell::WaitFor(Nanos timeout) {
  std::unique_lock lock(mutex_);
  rung_.wait_for(lock, std::chrono::nanoseconds(timeout));
}

void RunWorker(const std::shared_ptr<EngineShared>& shared, uint32_t index, Nanos open_deadline) {
  WorkerState& state = *shared->workers[index];
  WorkerThread worker(*shared, state);
  absl::Status opened = worker.Open(open_deadline);
  const bool ok = opened.ok();
  {
    std::lock_guard lock(shared->mutex);
    shared->opened[index] = std::move(opened);
  }
  shared->changed.notify_all();
  if (ok) worker.Run();
  if (ok) worker.TakeTotals();
  worker.Close();
  state.finished.store(true, std::memory_order_release);
  {
    std::lock_guard lock(shared->mutex);
    shared->exited[index] = true;
  }
  shared->changed.notify_all();
  shared->bell.Ring();
}

}  // namespace muster
