#pragma once
#include <memory>
#include <string>

#include "controller/run/run_control.h"

namespace muster {

enum class ViewMode {
  kQuiet,  // nothing
  kPlain,  // one line an event, for pipes and logs
  kLive,   // redrawn block, for terminals
  kJson,   // one JSON object a line
};

// Shows a run while it goes on: kPlain and kLive on stderr, kJson on stdout. All calls come from the run loop; the live
// view has a thread of its own that redraws twice a second. Destruction leaves the terminal as it was.
class RunView : public RunObserver {
 public:
  virtual void OnNote(const std::string& text) = 0;  // from the CLI itself ("stopping after this interval")
  // No more drawing; called before results are printed. Idempotent.
  virtual void Close() = 0;
};
std::unique_ptr<RunView> MakeRunView(ViewMode mode, const Plan& plan, const Clock& clock);

// What the live view draws, as lines without control sequences: pure, for tests.
struct LiveState {
  std::string run_id;
  size_t steps = 0, step_number = 0;  // from 1
  std::string step_name;
  PhaseKind phase = PhaseKind::kAttach;
  Nanos phase_elapsed = 0, phase_expected = 0;
  Nanos run_remaining = 0;
  std::optional<FillProgress> fill;
  std::optional<LiveFigures> live;
  std::vector<double> history;  // fleet IOPS, one an interval
  std::string note;
};
std::vector<std::string> DrawLive(const LiveState& state, size_t width);

// A line of block characters, one a value, scaled 0..max; the newest `width` values.
std::string Sparkline(const std::vector<double>& values, size_t width);
// A percentile of an interval; "-" when nothing finished in it, and where histograms come
// merged over the window.
std::string LiveLatency(const LiveFigures& figures, Nanos value);
// "12.3 k", "1.20 M": three digits for people.
std::string FormatCount(double value);

}  // namespace muster
