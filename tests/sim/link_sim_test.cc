#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "tests/sim/link_world.h"

// Real session machines of agents and the real fleet and run machine talk to each other over connections that break at
// any message, keep silent, deliver late, and over processes that are killed and started anew.
// MUSTER_SIM_SEED=N replays one seed with its log, MUSTER_SIM_SEEDS=N runs N.
namespace muster::sim {

bool LinkScenario::Gentle() const {
  for (const Agent& agent : agents) {
    if (agent.restart_at != UINT64_MAX || agent.options.log_bytes < size_t{1} << 20) return false;
    int mute = 0;
    for (const CutAt& cut : agent.cuts) {
      if (cut.outage > kSecond) return false;
      mute += cut.mute ? 1 : 0;
    }
    if (mute > 1) return false;
  }
  return lease >= 10 * kSecond;
}

std::string LinkScenario::Describe() const {
  std::string text = fmt::format("seed {}: {} steps, lease {}, store +{}", seed, plan.steps.size(),
                                 FormatDuration(lease), FormatLatency(static_cast<double>(store_latency)));
  for (const Agent& agent : agents) {
    text += fmt::format("; {}: latency {}", agent.options.id, FormatLatency(static_cast<double>(agent.latency)));
    for (const CutAt& cut : agent.cuts) {
      text += fmt::format(", cut at message {} for {}", cut.message, FormatLatency(static_cast<double>(cut.outage)));
    }
    if (agent.restart_at != UINT64_MAX) text += fmt::format(", killed at message {}", agent.restart_at);
  }
  return text;
}

LinkScenario DrawLinks(uint64_t seed) {
  Rng rng(MixSeed(seed, 11));
  LinkScenario out;
  out.seed = seed;
  out.plan.name = "links";
  out.plan.interval = rng.Below(3) == 0 ? 200 * kMillisecond : kSecond;
  out.plan.op_timeout = 30 * kSecond;
  out.plan.targets.push_back({.name = "null", .kind = NullTarget{}});
  const uint64_t steps = 1 + rng.Below(2);
  const uint32_t agents = 1 + static_cast<uint32_t>(rng.Below(3));
  for (uint32_t i = 0; i < steps; ++i) {
    muster::Step step;
    step.index = i;
    step.name = fmt::format("s{}", i);
    step.target = "null";
    step.initiators = step.initiators_max = agents;
    step.objects = {{.slot = 0, .name = "data", .size = uint64_t{1} << 24}};
    step.measure.workload.size = uint64_t{1} << 24;
    step.measure.warmup_intervals = static_cast<uint32_t>(rng.Below(3));
    step.measure.window_intervals = 1 + static_cast<uint32_t>(rng.Below(12));
    out.plan.steps.push_back(std::move(step));
  }
  if (rng.Below(4) == 0) out.lease = static_cast<Nanos>(3 + rng.Below(8)) * kSecond;
  out.store_latency = static_cast<Nanos>(rng.Below(100)) * kMillisecond;
  const bool harsh = rng.Below(3) == 0;
  for (uint32_t i = 0; i < agents; ++i) {
    LinkScenario::Agent agent;
    agent.options.id = fmt::format("a{}", i);
    agent.options.instance = i + 1;
    agent.options.clock_offset = static_cast<Nanos>(rng.Below(1'000'000)) * kMillisecond - 500 * kSecond;
    if (rng.Below(3) == 0) {
      agent.options.ops = 2'000;
      agent.options.log_bytes = 16'000 + rng.Below(8'000);
      // Long enough for the log to become full.
      agent.cuts.push_back({.message = 60, .outage = static_cast<Nanos>(3 + rng.Below(5)) * kSecond});
    }
    agent.latency = static_cast<Nanos>(1 + rng.Below(30)) * kMillisecond / 2;
    // Beats make most messages of a quiet agent: 16 probes before each start, one a second.
    uint64_t at = agent.cuts.empty() ? 0 : 60;
    for (uint64_t cuts = rng.Below(3); cuts > 0; --cuts) {
      at += 1 + rng.Below(60);
      agent.cuts.push_back({.message = at,
                            .outage = static_cast<Nanos>(rng.Below(harsh ? 15'000 : 1'000)) * kMillisecond,
                            .mute = rng.Below(4) == 0,
                            .late = rng.Below(2) == 0});
    }
    if (harsh && rng.Below(4) == 0) {
      agent.restart_at = 1 + rng.Below(120);
      agent.restart_after = static_cast<Nanos>(rng.Below(4'000)) * kMillisecond;
    }
    out.agents.push_back(std::move(agent));
  }
  return out;
}

namespace {

std::string Failure(const LinkWorld& world, const LinkScenario& scenario) {
  std::string text = scenario.Describe() + "\n";
  for (const std::string& line : world.log()) text += "  " + line + "\n";
  for (const std::string& line : world.broken()) text += "  BROKEN: " + line + "\n";
  return text + fmt::format("replay with MUSTER_SIM_SEED={}\n", scenario.seed);
}

TEST_CASE("sessions keep their promises whatever becomes of the links", "[sim]") {
  const char* one = std::getenv("MUSTER_SIM_SEED");
  const char* many = std::getenv("MUSTER_SIM_SEEDS");
  const uint64_t first = one != nullptr ? std::strtoull(one, nullptr, 10) : 1;
  const uint64_t count = one != nullptr ? 1 : many != nullptr ? std::strtoull(many, nullptr, 10) : 500;
  std::map<std::string, uint64_t> outcomes;
  uint64_t reconnects = 0, lost = 0, returned = 0, refused = 0, duplicates = 0, coarse = 0, resent = 0, gentle = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const LinkScenario scenario = DrawLinks(seed);
    LinkWorld world(scenario, /*trace=*/one != nullptr);
    world.Run();
    if (one != nullptr) fmt::print("{}", Failure(world, scenario));
    if (!world.broken().empty()) FAIL(Failure(world, scenario));
    ++outcomes[world.machine().outcome()];
    reconnects += world.reconnects;
    lost += world.lost;
    returned += world.returned;
    refused += world.refused;
    duplicates += world.duplicates;
    coarse += world.coarse;
    resent += world.resent;
    gentle += scenario.Gentle() && world.reconnects > 0 ? 1 : 0;
  }
  if (count < 300) return;
  fmt::print(
      "{} reconnects, {} lost, {} returned, {} refused, {} duplicates, {} commands again, {} coarse, {} gentle\n",
      reconnects, lost, returned, refused, duplicates, resent, coarse, gentle);
  // The seeds must reach what is promised, else it was not put to the test.
  CHECK(outcomes["complete"] > count / 4);
  CHECK(outcomes["aborted"] > 3);
  for (const uint64_t reached : {reconnects, lost, returned, refused, resent, coarse, gentle}) CHECK(reached > 10);
}

}  // namespace
}  // namespace muster::sim
