#pragma once
#include <map>
#include <string>
#include <vector>

#include "controller/run/phase.h"

namespace muster {

// Attaches one target for the rest of the run: per host the guard agent first (files and block devices), the other
// agents of that host after its answer, with the generation it named. Each Attach has the attach deadline.
class AttachPhase final : public Phase {
 public:
  AttachPhase(const muster::Step& step, Facts& facts) : step_(step), facts_(facts) {}

  void Begin(RunContext& ctx) override;
  void OnMessage(RunContext& ctx, FleetAgent& agent, const AgentSays& says) override;
  absl::Status OnReport(RunContext& ctx, FleetAgent& agent, const AgentReport& report) override;
  void OnLost(RunContext& ctx, FleetAgent& agent) override;
  void OnCancel(RunContext& ctx, int level) override;
  void OnStoreFailed(RunContext& ctx) override;
  void OnTime(RunContext& ctx) override;
  Nanos Deadline(const RunContext& ctx) const override;

 private:
  enum class Stage : uint8_t { kWaiting, kAsked, kDone };
  struct Part {
    FleetAgent* agent = nullptr;
    bool guard = false;
    Stage stage = Stage::kWaiting;
    Nanos deadline = kNever;
  };
  void Ask(RunContext& ctx, Part& part, uint64_t generation);
  void Finish(EndCause cause, absl::Status status);

  const muster::Step& step_;
  Facts& facts_;
  PhaseKey key_;
  AttachCommand command_;
  std::vector<Part> parts_;
};

}  // namespace muster
