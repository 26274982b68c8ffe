#pragma once
#include <set>
#include <string>

#include "controller/run/phase.h"

namespace muster {

// Releases everything on every live agent that was sent an Attach; also after failures. Bounded by the detach
// deadline; what goes wrong is told, never a reason to stop.
class DetachPhase final : public Phase {
 public:
  explicit DetachPhase(uint32_t step) : step_(step) {}

  void Begin(RunContext& ctx) override;
  void OnMessage(RunContext& ctx, FleetAgent& agent, const AgentSays& says) override;
  absl::Status OnReport(RunContext& ctx, FleetAgent& agent, const AgentReport& report) override;
  void OnLost(RunContext& ctx, FleetAgent& agent) override;
  void OnCancel(RunContext&, int) override {}
  void OnStoreFailed(RunContext&) override {}
  void OnTime(RunContext& ctx) override;
  Nanos Deadline(const RunContext&) const override { return deadline_; }

 private:
  const uint32_t step_;
  PhaseKey key_;
  Nanos deadline_ = 0;
  std::set<FleetAgent*> waiting_;
};

}  // namespace muster
