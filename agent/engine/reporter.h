#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "agent/engine/interval_collector.h"
#include "agent/engine/report_bound.h"
#include "agent/engine/worker_thread.h"
#include "agent/probe/hiccup.h"

namespace muster {

// The engine's reporter: takes the workers' recorder sets, makes deltas of them, gives the sets back, tells the
// listener. One thread for all workers. Run returns after OnEnded: when every worker has ended, or, where some are
// held in a system call, when the drain is over and they can no longer matter (they then count as stuck).
class Reporter {
 public:
  Reporter(std::shared_ptr<EngineShared> shared, const PhaseSpec& spec, EngineListener& listener,
           std::unique_ptr<HiccupMeter> hiccup);
  void Run();

 private:
  static constexpr Nanos kStuckGrace = 2 * kSecond;  // beyond the workers' own drain deadline

  void LookAround();
  bool Pull();
  void Emit(IntervalDelta delta);
  void TellFirstIo(bool at_edge);
  void TellProgress();
  bool AllFinished() const;
  bool GivenUp();
  void End();
  PhaseTotals MakeTotals();
  absl::Status MakeStatus() const;

  const std::shared_ptr<EngineShared> shared_;
  const PhaseSpec& spec_;
  EngineListener& listener_;
  const std::unique_ptr<HiccupMeter> hiccup_;
  IntervalCollector collector_;
  ReportBound bound_;
  absl::Status fault_;
  std::vector<bool> stuck_;
  Nanos last_look_ = 0;
  int64_t cpu_before_ = 0;
  bool told_first_io_ = false;
  bool started_ = false;
  Nanos stopped_since_ = kNever;  // when the phase should have begun to drain
};

}  // namespace muster
