#include "tests/unit/run/machine_harness.h"

#include <fmt/format.h>

namespace muster {
namespace {

struct Name {
  std::string operator()(const AttachCommand& c) {
    return fmt::format("attach {}{}", c.key.step, c.guard ? " guard" : "");
  }
  std::string operator()(const PrepareCommand& c) {
    return fmt::format("prepare {} {}.{}", PhaseKindName(c.spec.key.phase), c.spec.key.step, c.spec.key.attempt);
  }
  std::string operator()(const StartCommand& c) { return fmt::format("start {}.{}", c.key.step, c.key.attempt); }
  std::string operator()(const StopCommand& c) {
    return c.now ? std::string("stop now") : fmt::format("stop after {}", c.after_interval);
  }
  std::string operator()(const DetachCommand&) { return "detach"; }
  std::string operator()(const InspectCommand&) { return "inspect"; }
};

}  // namespace

void Harness::Do(const RunAction& action) {
  const auto answer = [&](const RunEvent& event) {
    if (store) answers_.push_back(event);
  };
  if (const auto* a = std::get_if<SendAction>(&action)) {
    sent.push_back(a->agent + ": " + std::visit(Name{}, a->command));
    commands.push_back(a->command);
    if (const auto* start = std::get_if<StartCommand>(&a->command)) t0 = start->t0_fleet;
  } else if (std::holds_alternative<CheckSpaceAction>(action)) {
    answer(SpaceChecked{});
  } else if (const auto* a = std::get_if<CommitReportAction>(&action)) {
    did.push_back(fmt::format("commit {} {}", a->report.agent, a->report.sequence));
    answer(ReportsCommitted{a->report.agent, a->report.sequence});
  } else if (const auto* a = std::get_if<AcknowledgeAction>(&action)) {
    did.push_back(fmt::format("ack {} {}", a->agent, a->sequence));
  } else if (const auto* a = std::get_if<RefuseReportsAction>(&action)) {
    did.push_back(fmt::format("refuse {} {}", a->agent, GetErrorInfo(a->why).code));
  } else if (const auto* a = std::get_if<DropAction>(&action)) {
    did.push_back(fmt::format("drop {} {}", a->agent, GetErrorInfo(a->why).code));
  } else if (const auto* a = std::get_if<SealStepAction>(&action)) {
    did.push_back(fmt::format("seal {}.{}", a->key.step, a->key.attempt));
    answer(StepSealed{a->key.step});
  } else if (std::holds_alternative<FinishAction>(action)) {
    answer(StoreFinished{});
  } else if (const auto* a = std::get_if<StepResultAction>(&action)) {
    results.push_back(*a->result);
  } else if (const auto* a = std::get_if<LiveAction>(&action)) {
    live.push_back(a->live);
  } else if (const auto* a = std::get_if<TellAction>(&action)) {
    told.push_back(a->text);
  }
}

}  // namespace muster
