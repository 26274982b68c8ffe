#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include <string>

#include "common/base/status.h"
#include "tests/sim/sim_world.h"

// A seeded fleet on a fake clock: the pure run machine, the real aggregator and verdict, the fleet's leases, and agents
// that are lost, hung, slow, wrong or lying. MUSTER_SIM_SEED=N replays one seed with its log, MUSTER_SIM_SEEDS=N runs
// N.
namespace muster::sim {
namespace {

std::string Failure(const SimWorld& world, const Scenario& scenario) {
  std::string text = scenario.Describe() + "\n";
  for (const std::string& line : world.log()) text += "  " + line + "\n";
  for (const std::string& line : world.broken()) text += "  BROKEN: " + line + "\n";
  return text + fmt::format("replay with MUSTER_SIM_SEED={}\n", scenario.seed);
}

TEST_CASE("a run keeps its promises whatever its agents do", "[sim]") {
  const char* one = std::getenv("MUSTER_SIM_SEED");
  const char* many = std::getenv("MUSTER_SIM_SEEDS");
  const uint64_t first = one != nullptr ? std::strtoull(one, nullptr, 10) : 1;
  const uint64_t count = one != nullptr ? 1 : many != nullptr ? std::strtoull(many, nullptr, 10) : 300;
  std::map<std::string, int> outcomes, steps;
  int without = 0, anew = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const Scenario scenario = Draw(seed);
    SimWorld world(scenario, /*trace=*/one != nullptr);
    world.Run();
    if (one != nullptr) fmt::print("{}", Failure(world, scenario));
    if (!world.broken().empty()) FAIL(Failure(world, scenario));
    ++outcomes[world.machine().outcome()];
    for (const auto& [index, result] : world.results()) {
      ++steps[std::string(StepOutcomeName(result->outcome))];
      if (result->outcome != StepOutcome::kValid) continue;
      without += result->figures.left_out.empty() ? 0 : 1;
      anew += result->figures.restarts > 0 ? 1 : 0;
    }
  }
  if (count < 300) return;
  CHECK(without >= 3);  // VALID without a lost agent, begun anew after it had begun
  CHECK(anew >= 3);
  // The seeds must reach every way a run and a step can end, else the promises were not put to the test.
  for (const char* outcome : {"complete", "cancelled", "failed", "aborted"}) {
    INFO(outcome);
    CHECK(outcomes[outcome] >= 3);
  }
  for (const char* outcome : {"VALID", "INVALID", "OVERLOADED", "CANCELLED", "FAILED", "SKIPPED"}) {
    INFO(outcome);
    CHECK(steps[outcome] >= 3);
  }
}

// A report bound decides when histograms travel, never what they add up to.
TEST_CASE("any report bound gives the same figures over the window", "[sim]") {
  uint64_t compared = 0;
  uint64_t held = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Scenario scenario = Draw(seed);
    scenario.store_fails_after = scenario.store_hangs_after = UINT64_MAX;
    scenario.cancel_at = scenario.abort_at = kNever;
    std::map<size_t, std::map<uint32_t, std::shared_ptr<const StepResult>>> results;
    for (const size_t bound : {size_t{64} << 10, size_t{450}, size_t{0}}) {
      for (SimAgent::Options& agent : scenario.agents) {
        agent.fault = Fault::kNone;
        agent.latency = kMillisecond;
        agent.report_bound = bound;
      }
      SimWorld world(scenario);
      world.Run();
      if (!world.broken().empty()) FAIL(Failure(world, scenario));
      results[bound] = world.results();
    }
    for (const auto& [index, whole] : results[size_t{64} << 10]) {
      CHECK(whole->figures.held == 0);
      for (const size_t bound : {size_t{450}, size_t{0}}) {
        INFO("seed " << seed << " step " << index << " bound " << bound);
        const StepResult& other = *results[bound].at(index);
        REQUIRE(other.outcome == whole->outcome);
        REQUIRE(other.figures.initiators.size() == whole->figures.initiators.size());
        held += other.figures.held;
        const auto same = [](const GroupFigures& a, const GroupFigures& b) {
          REQUIRE(a.kinds.size() == b.kinds.size());
          for (size_t i = 0; i < a.kinds.size(); ++i) {
            REQUIRE(a.kinds[i].completed == b.kinds[i].completed);
            REQUIRE(a.kinds[i].response == b.kinds[i].response);
            REQUIRE(a.kinds[i].wait == b.kinds[i].wait);
            REQUIRE(a.kinds[i].service == b.kinds[i].service);
            REQUIRE(a.kinds[i].response_max == b.kinds[i].response_max);
            for (const double q : {0.5, 0.99, 0.999}) {
              REQUIRE(a.kinds[i].response.At(q).value == b.kinds[i].response.At(q).value);
            }
          }
        };
        same(whole->figures.fleet, other.figures.fleet);
        for (size_t i = 0; i < whole->figures.initiators.size(); ++i) {
          same(whole->figures.initiators[i], other.figures.initiators[i]);
        }
        compared += whole->outcome == StepOutcome::kValid ? 1 : 0;
      }
    }
  }
  CHECK(compared > 100);
  CHECK(held > 100);
}

}  // namespace
}  // namespace muster::sim
