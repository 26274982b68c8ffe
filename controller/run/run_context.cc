#include "controller/run/run_context.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/status.h"

namespace muster {
namespace {

constexpr uint32_t kMaxComplaints = 64;

}  // namespace

RunContext::RunContext(const Plan& p, RunMachineOptions o, std::vector<FleetAgent> a)
    : plan(p), options(std::move(o)), agents(std::move(a)) {}

FleetAgent* RunContext::Find(const std::string& id) {
  const auto found = std::find_if(agents.begin(), agents.end(), [&](const FleetAgent& a) { return a.id == id; });
  return found == agents.end() ? nullptr : &*found;
}

const Target& RunContext::TargetOf(const muster::Step& step) const {
  const auto found =
      std::find_if(plan.targets.begin(), plan.targets.end(), [&](const Target& t) { return t.name == step.target; });
  static const Target kNone;
  return found == plan.targets.end() ? kNone : *found;
}

std::string RunContext::PlaceOf(const muster::Step& step, const FleetAgent& agent) const {
  const auto found = options.target_places.find(step.target);
  return fmt::format("{}target {}, agent {}{}{}", found == options.target_places.end() ? "" : found->second + " ",
                     step.target, agent.id, agent.hostname.empty() ? "" : " on ", agent.hostname);
}

PhaseKey RunContext::Key(uint32_t step, PhaseKind phase, uint32_t attempt) const {
  return {.run = options.run_id, .step = step, .phase = phase, .attempt = attempt};
}

void RunContext::Send(const FleetAgent& agent, AgentCommand command) {
  if (agent.live) actions.emplace_back(SendAction{agent.id, std::move(command)});
}

void RunContext::Tell(std::string text) {
  actions.emplace_back(TellAction{std::move(text)});
}

void RunContext::Complain(std::string text) {
  if (complaints_ >= kMaxComplaints) return;
  if (++complaints_ == kMaxComplaints) text += " (further ones are not shown)";
  Tell(std::move(text));
}

void RunContext::Lose(FleetAgent& agent, absl::Status why, bool drop) {
  if (!agent.live) return;
  agent.live = false;
  agent.lost = why;
  if (first_loss.ok()) first_loss = why;
  Tell(fmt::format("agent {} lost: {}", agent.id, FormatError(why)));
  if (drop) actions.emplace_back(DropAction{agent.id, std::move(why)});
}

bool RunContext::GoesOn() const {
  return plan.continue_on_loss && std::any_of(agents.begin(), agents.end(), [](const FleetAgent& a) { return a.live; });
}

bool RunContext::AllCommitted() const {
  return !store_ok() ||
         std::all_of(agents.begin(), agents.end(), [](const FleetAgent& a) { return a.committed >= a.asked_commit; });
}

bool RunContext::StoreBehind() const {
  return store_ok() && store_waiting_since != kNever && now - store_waiting_since > options.deadlines.silent_grace / 2;
}

Nanos RunContext::StartLead() const {
  Nanos worst = 0;
  for (const FleetAgent& agent : agents) {
    if (agent.live) worst = std::max(worst, agent.clock.round_trip);
  }
  return std::min(std::max(options.min_lead, 4 * worst),
                  std::max(options.min_lead, options.deadlines.prepared_to_start / 2));
}

std::string KeyText(const PhaseKey& key) {
  return fmt::format("step {} {} attempt {}", key.step + 1, PhaseKindName(key.phase), key.attempt);
}

}  // namespace muster
