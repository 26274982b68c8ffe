#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "agent/session/driver.h"
#include "agent/session/inbox.h"
#include "common/base/queue.h"

namespace muster::agent {

// Brings what an engine says into the session's queue. Lives as long as its engine.
class EngineRelay final : public EngineListener {
 public:
  EngineRelay(uint64_t engine, Inbox<Event>& inbox) : engine_(engine), inbox_(inbox) {}
  void OnFirstIo(Nanos first_io_local, Nanos wake_lateness) override;
  void OnInterval(IntervalDelta delta) override;
  void OnHeld(HeldHistograms held) override;
  void OnProgress(uint64_t bytes_done, uint64_t bytes_total) override;
  void OnEnded(PhaseTotals totals, absl::Status status) override;

 private:
  const uint64_t engine_;
  Inbox<Event>& inbox_;
  bool overrun_ = false;  // the engine's reporter thread alone calls
};

// The thread for what blocks. Owns attached targets and the engine. The session machine has one job under way at a
// time; jobs and their answers are bounded by that.
class WorkThread {
 public:
  WorkThread(const DriverOptions& options, const DriverSeams& seams, const Clock& clock, const FleetTime& fleet,
             const LeaseEnd& lease, Inbox<Event>& inbox);
  // Waits for the job under way.
  ~WorkThread();

  // Session thread. False: the queue is full, which the machine's one job at a time excludes.
  bool Post(Action job);
  // The prepared engine; Start, StopAfter and Abort are called on the session thread between PrepareFinished and
  // DoRelease. nullptr without one.
  Engine* engine() const { return engine_.get(); }

 private:
  void Loop();
  void Do(const DoAttach& job);
  void Do(const DoInspect& job);
  void Do(const DoDetach& job);
  void Do(const DoPrepare& job);
  void Do(const DoRelease& job);
  template <typename Other>
  void Do(const Other&) {}
  void Answer(Event event);

  const DriverOptions& options_;
  const DriverSeams& seams_;
  const Clock& clock_;
  const FleetTime& fleet_;
  const LeaseEnd& lease_;
  Inbox<Event>& inbox_;
  struct Attached {
    Target target;
    std::unique_ptr<AttachedTarget> handle;
  };
  std::map<std::string, Attached, std::less<>> targets_;
  std::unique_ptr<EngineRelay> relay_;  // outlives the engine
  std::unique_ptr<Engine> engine_;
  BoundedQueue<Action> jobs_{8};
  std::thread thread_;
};

}  // namespace muster::agent
