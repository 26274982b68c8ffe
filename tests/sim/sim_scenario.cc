#include <fmt/format.h>

#include <algorithm>

#include "common/plan/layout.h"
#include "tests/sim/sim_world.h"

namespace muster::sim {
namespace {

Plan DrawPlan(Rng& rng) {
  Plan plan;
  plan.name = "sim";
  plan.interval = rng.Below(3) == 0 ? 200 * kMillisecond : kSecond;
  plan.op_timeout = static_cast<Nanos>(1 + rng.Below(8)) * kSecond;
  plan.targets.push_back({.name = "null", .kind = NullTarget{}});
  plan.targets.push_back({.name = "files", .kind = FileTarget{.dir = "/x"}});
  const uint64_t steps = 1 + rng.Below(4);
  for (uint32_t i = 0; i < steps; ++i) {
    muster::Step step;
    step.index = i;
    step.name = fmt::format("s{}", i);
    step.target = rng.Below(2) == 0 ? "null" : "files";
    step.initiators = 1 + static_cast<uint32_t>(rng.Below(6));
    step.initiators_max = 6;
    step.objects = {{.slot = 0, .name = "data", .size = uint64_t{1} << 24}};
    step.fill_passes = step.target == "files" && rng.Below(2) == 0 ? 1 : 0;
    step.measure.workload.size = uint64_t{1} << 24;
    step.measure.warmup_intervals = static_cast<uint32_t>(rng.Below(3));
    step.measure.window_intervals = 1 + static_cast<uint32_t>(rng.Below(5));
    step.writes = step.fill_passes > 0;
    if (rng.Below(12) == 0) step.skip_reason = "the point cannot be measured";
    plan.steps.push_back(std::move(step));
  }
  return plan;
}

}  // namespace

bool Scenario::Faulty() const {
  return cancel_at != kNever || abort_at != kNever || store_fails_after != UINT64_MAX ||
         store_hangs_after != UINT64_MAX || std::any_of(agents.begin(), agents.end(), [](const SimAgent::Options& a) {
           return (a.fault != Fault::kNone && a.fault != Fault::kDuplicates && a.fault != Fault::kStaleMessages &&
                   a.fault != Fault::kMissesStart) ||
                  a.latency > 100 * kMillisecond;
         });
}

std::string Scenario::Describe() const {
  std::string text = fmt::format("seed {}: {} steps, op timeout {}, store +{}", seed, plan.steps.size(),
                                 FormatDuration(plan.op_timeout), FormatLatency(static_cast<double>(store_latency)));
  for (const SimAgent::Options& agent : agents) {
    text += fmt::format("; {} on {}: {} at {}, latency {}", agent.id, agent.host, FaultName(agent.fault),
                        agent.fault_at == kNever ? "-" : FormatLatency(static_cast<double>(agent.fault_at)),
                        FormatLatency(static_cast<double>(agent.latency)));
  }
  if (plan.continue_on_loss) text += "; continues after losses";
  if (cancel_at != kNever) text += fmt::format("; cancel at {}", FormatLatency(static_cast<double>(cancel_at)));
  if (abort_at != kNever) text += fmt::format("; abort at {}", FormatLatency(static_cast<double>(abort_at)));
  if (store_fails_after != UINT64_MAX) text += fmt::format("; store fails after {}", store_fails_after);
  if (store_hangs_after != UINT64_MAX) text += fmt::format("; store hangs after {}", store_hangs_after);
  return text;
}

Scenario Draw(uint64_t seed) {
  Rng rng(MixSeed(seed, 1));
  Scenario scenario;
  scenario.seed = seed;
  scenario.plan = DrawPlan(rng);
  const Nanos start = 1'000 * kSecond;  // SimQueue's first instant
  const auto sometime = [&] { return start + static_cast<Nanos>(rng.Below(30'000)) * kMillisecond; };
  const uint64_t agents = 1 + rng.Below(6);
  for (uint64_t i = 0; i < agents; ++i) {
    SimAgent::Options agent;
    agent.id = fmt::format("a{}", i);
    agent.host = fmt::format("host{}", rng.Below(3));
    // Two thirds of the agents are sound, so that whole runs get through as well.
    if (rng.Below(3) == 0) agent.fault = static_cast<Fault>(rng.Below(static_cast<uint64_t>(Fault::kCount)));
    agent.fault_at = sometime();
    agent.latency = static_cast<Nanos>(1 + rng.Below(20)) * 100 * kMicrosecond;
    if (rng.Below(10) == 0) agent.latency = static_cast<Nanos>(rng.Below(3'000)) * kMillisecond;  // slow
    agent.clock_offset = static_cast<Nanos>(rng.Below(1'000'000)) * kMillisecond - 500 * kSecond;
    agent.clock_error = static_cast<Nanos>(rng.Below(1'000'000));
    scenario.agents.push_back(std::move(agent));
  }
  // A third of the agents leave histograms out of some intervals, or of all. Drawn apart: the rest of a seed is as it
  // was.
  Rng bounds(MixSeed(seed, 2));
  for (SimAgent::Options& agent : scenario.agents) {
    if (bounds.Below(3) == 0) agent.report_bound = bounds.Below(2) == 0 ? 0 : 300 + bounds.Below(300);
  }
  Rng policies(MixSeed(seed, 3));
  scenario.plan.continue_on_loss = policies.Below(2) == 0;
  scenario.stranger = rng.Below(4) == 0;
  scenario.lease = static_cast<Nanos>(3 + rng.Below(8)) * kSecond;
  scenario.deadlines.attach = static_cast<Nanos>(2 + rng.Below(20)) * kSecond;
  scenario.deadlines.prepared_to_start = static_cast<Nanos>(2 + rng.Below(9)) * kSecond;
  scenario.deadlines.detach = static_cast<Nanos>(2 + rng.Below(20)) * kSecond;
  scenario.store_latency = static_cast<Nanos>(rng.Below(200)) * kMillisecond / 4;
  if (rng.Below(10) == 0) scenario.store_fails_after = rng.Below(60);
  if (rng.Below(20) == 0) scenario.store_hangs_after = rng.Below(60);
  if (rng.Below(6) == 0) scenario.cancel_at = sometime();
  if (rng.Below(10) == 0) scenario.abort_at = sometime();
  return scenario;
}

}  // namespace muster::sim
