#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/plan/plan.h"
#include "controller/aggregate/figures.h"
#include "controller/store/run_store.h"

// What a caller of a run gives and sees: options, progress, outcome.
namespace muster {

// Deadlines of a run, all settable. Where an agent keeps the same deadline itself, the controller waits the
// slack longer: the agent's own answer carries the better error.
struct RunDeadlines {
  Nanos attach = 60 * kSecond;
  Nanos prepared_to_start = 10 * kSecond;
  Nanos detach = 30 * kSecond;
  Nanos no_progress_slack = 5 * kSecond;  // prepare, fill, drain: op timeout + this
  Nanos silent_grace = 2 * kSecond;       // silent: an interval missing this plus 3 intervals after its end
  Nanos answer_slack = 2 * kSecond;       // attach, prepare, detach
  Nanos end_slack = 8 * kSecond;          // end of a phase: the agent's drain grace and the join of its threads
  Nanos store = 60 * kSecond;             // the store answers within it
};

struct RunOptions {
  std::string runs_dir;
  bool keep_raw = false;
  RunDeadlines deadlines;
  Nanos lease = 10 * kSecond;  // of the fleet: how long an agent that is cut off may go on
  RunHeader header;            // id, campaign text ...
  // The run file to go on with, and what is to be told of that; empty: a new one. The plan is then that of
  // PlanToResume.
  std::string resume_path, resume_note;
  // Where the campaign names each target ("lab.yaml:4:3"), for what agents say of it; may lack any.
  std::map<std::string, std::string> target_places;
};

struct FillProgress {
  uint64_t bytes_done = 0, bytes_total = 0;
  double bytes_per_second = 0;
  std::optional<Nanos> eta;
};

// Called from the run loop's thread, in order; must not block for long.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void OnRunStarted(const std::string& run_id, const std::string& path) = 0;
  virtual void OnPhase(const Step& step, PhaseKind phase, Nanos expected) = 0;  // expected 0: unknown
  virtual void OnFillProgress(const FillProgress& progress) = 0;
  virtual void OnLive(const Step& step, const LiveFigures& live) = 0;
  virtual void OnStepResult(const StepResult& result) = 0;
  virtual void OnEvent(const std::string& text) = 0;  // agent lost, start missed, silent agent ...
  // LiveFigures::detail is worth its cost; asked often.
  virtual bool WantsDetail() const { return false; }
};

struct RunOutcome {
  std::string run_id;
  std::string path;          // of the run file; empty when none could be made
  std::string outcome;       // complete, cancelled, failed, aborted
  absl::Status error;        // why it failed or was aborted
  bool any_invalid = false;  // a step is not VALID
  Nanos quiet_at = 0;        // fleet time by which agents it lost have stopped loading its targets
};

}  // namespace muster
