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
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const Scenario scenario = Draw(seed);
    SimWorld world(scenario, /*trace=*/one != nullptr);
    world.Run();
    if (one != nullptr) fmt::print("{}", Failure(world, scenario));
    if (!world.broken().empty()) FAIL(Failure(world, scenario));
    ++outcomes[world.machine().outcome()];
    for (const auto& [index, result] : world.results()) ++steps[std::string(StepOutcomeName(result->outcome))];
  }
  if (count < 300) return;
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

}  // namespace
}  // namespace muster::sim
