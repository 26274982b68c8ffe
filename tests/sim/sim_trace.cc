#include <fmt/format.h>

#include "tests/sim/sim_world.h"

namespace muster::sim {
namespace {

std::string Of(const AgentSays& says) {
  struct Visitor {
    std::string operator()(const AttachDone& m) { return "AttachDone " + KeyText(m.key); }
    std::string operator()(const PrepareDone& m) { return "PrepareDone " + KeyText(m.key); }
    std::string operator()(const StartDone& m) {
      return fmt::format("StartDone {}{}", KeyText(m.key), m.missed ? " missed" : "");
    }
    std::string operator()(const FirstIo& m) { return "FirstIo " + KeyText(m.key); }
    std::string operator()(const FillReport& m) { return fmt::format("Fill {} of {}", m.bytes_done, m.bytes_total); }
    std::string operator()(const DetachDone& m) { return "DetachDone " + KeyText(m.key); }
    std::string operator()(const Refused& m) { return "Refused " + KeyText(m.key); }
    std::string operator()(const InspectDone&) { return "InspectDone"; }
    std::string operator()(const AgentReport& m) {
      const auto* delta = std::get_if<IntervalDelta>(&m.body);
      if (const auto* held = std::get_if<HeldHistograms>(&m.body)) {
        return fmt::format("Report {} {} held {} to {}", m.sequence, KeyText(m.key), held->first_interval,
                           held->last_interval);
      }
      return fmt::format("Report {} {} {}", m.sequence, KeyText(m.key),
                         delta == nullptr ? "ended" : fmt::format("interval {}", delta->interval));
    }
    std::string operator()(const ClockNews&) { return {}; }
    std::string operator()(const LinkDown&) { return "LinkDown"; }
    std::string operator()(const LinkBack& m) { return fmt::format("LinkBack {} reports", m.reports); }
    std::string operator()(const AgentReturned& m) { return fmt::format("AgentReturned {} reports", m.reports); }
    std::string operator()(const AgentGone&) { return "Gone"; }
  };
  return std::visit(Visitor{}, says);
}

std::string Of(const AgentCommand& command) {
  struct Visitor {
    std::string operator()(const AttachCommand& m) { return "Attach " + KeyText(m.key); }
    std::string operator()(const PrepareCommand& m) { return "Prepare " + KeyText(m.spec.key); }
    std::string operator()(const StartCommand& m) { return "Start " + KeyText(m.key); }
    std::string operator()(const StopCommand& m) {
      return fmt::format("Stop {} {}", KeyText(m.key), m.now ? "now" : fmt::format("after {}", m.after_interval));
    }
    std::string operator()(const DetachCommand& m) { return "Detach " + KeyText(m.key); }
    std::string operator()(const InspectCommand&) { return "Inspect"; }
  };
  return std::visit(Visitor{}, command);
}

}  // namespace

std::string Trace(const RunEvent& event) {
  if (const auto* e = std::get_if<AgentEvent>(&event)) {
    const std::string said = Of(e->says);
    return said.empty() ? said : fmt::format("{} says {}", e->agent, said);
  }
  if (const auto* e = std::get_if<ReportsCommitted>(&event))
    return fmt::format("committed {} {}", e->agent, e->sequence);
  if (const auto* e = std::get_if<StepSealed>(&event)) return fmt::format("sealed {}", e->step);
  if (const auto* e = std::get_if<CancelAsked>(&event)) return fmt::format("cancel {}", e->level);
  return {};
}

std::string Trace(const RunAction& action) {
  if (const auto* a = std::get_if<SendAction>(&action)) return fmt::format("  to {}: {}", a->agent, Of(a->command));
  if (const auto* a = std::get_if<SealStepAction>(&action)) return fmt::format("  seal {}", KeyText(a->key));
  return {};
}

}  // namespace muster::sim
