#pragma once
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "controller/run/run_control.h"
#include "muster/v1/controller_api.pb.h"

namespace muster {

using SharedRunEvent = std::shared_ptr<const v1::RunEvent>;

// Somebody who watches a run. Called from the run's threads: must not block.
class RunWatcher {
 public:
  virtual ~RunWatcher() = default;
  // False: it takes no more; it is not called again, but to be told that it is cut off.
  virtual bool Offer(const SharedRunEvent& event) = 0;
  virtual void CutOff() = 0;
  // There are no more events.
  virtual void End() = 0;
  // It asked for LiveFigures::detail.
  virtual bool detail() const { return false; }
  // Nobody is there any more.
  virtual bool gone() const = 0;
};

// What a run tells: to the log, with run, step, phase and agent as fields, and to whoever watches. Keeps what somebody
// who comes later must know. A watcher that takes no more is dropped and never slows the run. Thread-safe.
class RunFeed final : public RunObserver {
 public:
  RunFeed(std::string run, const Plan& plan, const Clock& clock);

  void OnWaits(const std::vector<std::string>& waits_for);  // news only
  void OnAgents(std::vector<std::string> agents);           // those it will use; before the run begins
  void OnRunStarted(const std::string& run_id, const std::string& path) override;
  void OnPhase(const Step& step, PhaseKind phase, Nanos expected) override;
  void OnFillProgress(const FillProgress& progress) override;
  void OnLive(const Step& step, const LiveFigures& live) override;
  void OnStepResult(const StepResult& result) override;
  void OnEvent(const std::string& text) override;
  bool WantsDetail() const override;        // somebody who watches does
  void OnEnded(const RunOutcome& outcome);  // the last one

  // Tells what has happened so far, then everything as it happens. WATCHERS_FULL.
  absl::Status Watch(std::shared_ptr<RunWatcher> watcher);

  // Everything but state, time in it and what it waits for.
  void Describe(v1::RunStatus& status) const;

  static constexpr size_t kWatchers = 32;
  static constexpr size_t kHistory = 2'000;  // events kept for who comes later

 private:
  // With the mutex held. `detailed`: the same news for who asked for detail, if it differs.
  void Tell(v1::RunEvent event, std::optional<v1::RunEvent> detailed = std::nullopt);
  void Keep(SharedRunEvent event);
  void LogLine(bool warning, const std::string& text);
  std::string AgentNamed(const std::string& text) const;

  const std::string run_;
  const Clock& clock_;
  mutable std::mutex mutex_;
  SharedRunEvent planned_;
  SharedRunEvent began_, phase_, fill_, live_, ended_;  // the newest
  std::deque<SharedRunEvent> history_;                  // results of steps and what was told
  size_t dropped_ = 0;
  std::vector<std::string> waits_for_, agents_;
  std::vector<std::shared_ptr<RunWatcher>> watchers_;
  std::vector<Nanos> estimated_;              // of each step, in order
  std::shared_ptr<const LiveDetail> detail_;  // told last
  uint32_t step_ = 0;                         // from 1; 0: none yet
  Nanos phase_since_ = 0;
  PhaseKind phase_kind_ = PhaseKind::kAttach;  // with phase_
};

}  // namespace muster
