#pragma once
#include <string>
#include <vector>

#include "controller/run/io_phase.h"

namespace muster {

// Writes every block of the working set, split over the agents. A target is local to its host, so the agents of each
// host write the whole set between them; on one host that is one split over all agents.
class FillPhase final : public IoPhase {
 public:
  FillPhase(const muster::Step& step, Facts& facts) : IoPhase(step, PhaseKind::kFill, facts) {}

  uint64_t bytes_written() const { return written_; }  // by the agents' totals
  Nanos Elapsed() const;                               // first I/O to the last agent's end

 private:
  std::vector<Part> Participants(RunContext& ctx) override;
  void OnFewer(RunContext& ctx) override;
  bool RestartsOnLoss() const override { return false; }
  bool LeftUndone(const RunContext& ctx) const override;
  void OnAttempt(RunContext& ctx) override;
  absl::Status OnInterval(RunContext&, Part&, const IntervalDelta&) override { return absl::OkStatus(); }
  absl::Status OnHeld(Part&, const HeldHistograms&) override { return absl::OkStatus(); }
  absl::Status OnTotals(RunContext& ctx, Part& part, const PhaseEnded& ended) override;
  absl::Status OnLateTotals(Part&, const PhaseEnded&) override { return absl::OkStatus(); }
  void OnGivenUp(Part&) override {}
  void OnFillReport(RunContext& ctx, Part& part, const FillReport& progress) override;
  Nanos RunDeadline(const RunContext& ctx, const Part& part) const override;
  void CheckRunning(RunContext& ctx, Part& part) override;

  std::string HostOf(const RunContext& ctx, const FleetAgent& agent) const;
  Part PartOf(const RunContext& ctx, FleetAgent& agent, std::vector<FillExtent> extents) const;
  bool Done(const Part& part) const;  // all of its share is written

  uint64_t written_ = 0;
  Nanos began_ = kNever, ended_at_ = 0;
  Nanos shown_ = -kNever;
};

}  // namespace muster
