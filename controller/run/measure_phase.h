#pragma once
#include <memory>
#include <optional>

#include "controller/aggregate/aggregator.h"
#include "controller/run/io_phase.h"

namespace muster {

// The measured load of a step, on the agents that carry its initiators: warm-up and window in common intervals, the
// merge while it runs, the drain, the totals.
class MeasurePhase final : public IoPhase {
 public:
  MeasurePhase(const muster::Step& step, Facts& facts) : IoPhase(step, PhaseKind::kMeasure, facts) {}

  // Once, when done: figures of the intervals that every participant delivered, sums checked.
  StepFigures Seal(RunContext& ctx);

 private:
  std::vector<Part> Participants(RunContext& ctx) override;
  void OnFewer(RunContext& ctx) override;
  bool RestartsOnLoss() const override { return true; }
  bool LeftUndone(const RunContext&) const override { return false; }
  void OnAttempt(RunContext& ctx) override;
  absl::Status OnInterval(RunContext& ctx, Part& part, const IntervalDelta& delta) override;
  absl::Status OnHeld(Part& part, const HeldHistograms& held) override;
  absl::Status OnTotals(RunContext& ctx, Part& part, const PhaseEnded& ended) override;
  absl::Status OnLateTotals(Part& part, const PhaseEnded& ended) override;
  void OnGivenUp(Part& part) override;
  void OnFillReport(RunContext&, Part&, const FillReport&) override {}
  Nanos RunDeadline(const RunContext& ctx, const Part& part) const override;
  void CheckRunning(RunContext& ctx, Part& part) override;

  // Figures of the attempt at hand; an aggregator is sealed once.
  const StepFigures& SealAttempt();
  void WriteComplete(RunContext& ctx);
  void ShowLive(RunContext& ctx);

  std::unique_ptr<PhaseAggregator> aggregator_;
  std::optional<StepFigures> sealed_;  // of that aggregator
  std::vector<std::string> left_out_;  // agents lost before the attempt at hand
  uint32_t left_out_initiators_ = 0;
  std::vector<LostFigures> lost_;  // their rows
  Nanos shown_ = -kNever;
  int64_t shown_interval_ = -1;
};

}  // namespace muster
