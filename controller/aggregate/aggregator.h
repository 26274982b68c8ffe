#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/plan/plan.h"
#include "common/stats/held_histograms.h"
#include "common/stats/op_stats.h"
#include "controller/aggregate/figures.h"

namespace muster {

// Who takes part in a measure phase and what its window is.
struct PhaseShape {
  std::map<std::string, std::vector<uint32_t>> agents;  // agent id -> initiators it carries
  Nanos interval = kSecond;
  uint32_t warmup_intervals = 0;
  uint32_t window_intervals = 1;
  Workload workload;
};

// Merges the intervals of one measure phase while they come in. Not thread-safe (run loop only). Never blocks.
// Memory: fleet histograms per interval are handed out when an interval is complete (TakeComplete) and forgotten;
// window histograms are kept per initiator and kind.
class PhaseAggregator {
 public:
  explicit PhaseAggregator(PhaseShape shape);
  ~PhaseAggregator();

  // Typed errors REPORT_UNKNOWN_AGENT, REPORT_DUPLICATE_INTERVAL, REPORT_UNKNOWN_INITIATOR, REPORT_DUPLICATE_INITIATOR,
  // REPORT_LATE (interval closed without the lost agent, or phase sealed), REPORT_DAMAGED, HISTOGRAM_*; nothing is
  // merged then. Late intervals of a live agent are merged until the phase is sealed. An interval counts for the window
  // when every initiator of every agent is in it and it is no gap; an initiator that did nothing must be there, empty.
  absl::Status Add(const std::string& agent, const IntervalDelta& delta);
  // Histograms that intervals before left out (InitiatorDelta::held), at the edges of the window; they count for the
  // figures over the window, never for one interval. Typed errors as above, and REPORT_DUPLICATE_HELD; nothing is
  // merged then. Ones that are not exactly what was left out are not merged and become `sums_error`.
  absl::Status AddHeld(const std::string& agent, const HeldHistograms& held);
  // Once an agent. REPORT_UNKNOWN_AGENT, REPORT_UNKNOWN_INITIATOR, REPORT_DUPLICATE_TOTALS, REPORT_LATE.
  absl::Status AddTotals(const std::string& agent, const PhaseTotals& totals);
  // The agent will deliver nothing more (lost or failed).
  void Lose(const std::string& agent);

  // Fleet figures of the newest interval that every live agent has delivered. Agents that are silent (more than
  // 2 s + 3 intervals behind the newest report) are not waited for; figures without them are marked `provisional`.
  std::optional<LiveFigures> Live() const;
  // Live figures have LiveDetail from now on, or none: at most one every kDetailPeriod of the phase.
  void WantDetail(bool wanted);
  static constexpr Nanos kDetailPeriod = kSecond / 2;
  // Intervals completed since the last call, in order, for the store.
  std::vector<FleetInterval> TakeComplete();

  // All totals are in (or the agents lost). Computes the figures over the window and checks sums
  // (submitted = completed + failed + aborted + abandoned; histogram counts = completed; sum over deltas
  // = totals; sum over initiators = fleet). A mismatch is recorded in `sums_error`, never hidden.
  // `last_interval`: the phase's real last one (a cancelled phase has a shorter window). Once; then only TakeComplete.
  // `response_max` counts every operation outstanding at the end, whatever became of it: its final latency, or its age.
  // Unfinished operations are in open loop's response, not in its wait and service: nobody knows those.
  StepFigures Seal(int64_t last_interval);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
