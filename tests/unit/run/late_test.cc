// Links that break and come back, and reports of agents that were lost.
#include <fmt/format.h>

#include <algorithm>

#include "tests/unit/run/machine_harness.h"

namespace muster {
namespace {

bool Told(const Harness& h, const std::string& text) {
  return std::any_of(h.told.begin(), h.told.end(),
                     [&](const std::string& line) { return line.find(text) != std::string::npos; });
}

TEST_CASE("an agent of earlier runs whose first report is refused holds nothing up") {
  Harness h(2);
  h.plan.steps = {OneStep(0, 2)};
  h.HasSent("a", 3);
  h.HasSent("b", 3);
  h.Begin();
  h.ToRunning({"a", "b"});
  h.sequences["a"] = 5;  // 4 and 5 never came
  h.Interval("a", h.Key(PhaseKind::kMeasure), 0, {0});
  for (int64_t k = 0; k < 3; ++k) h.Interval("b", h.Key(PhaseKind::kMeasure), k, {1});
  h.Ended("b", h.Key(PhaseKind::kMeasure), 2, {1});
  REQUIRE(h.results.size() == 1);
  CHECK_THAT(h.results[0].message, Catch::Contains("REPORT_OUT_OF_ORDER"));
  h.Detached("b");
  CHECK(h.machine().outcome() == "aborted");
}

TEST_CASE("a link that is back in time is told, counted for its step alone, and changes nothing") {
  Harness h(2);
  h.plan.steps = {OneStep(0, 2), OneStep(1, 2)};
  h.Begin();
  h.ToRunning({"a", "b"});
  for (uint32_t step = 0; step < 2; ++step) {
    const PhaseKey key = h.Key(PhaseKind::kMeasure, step);
    if (step == 1) {
      for (const char* id : {"a", "b"}) h.Prepared(id, key);
      for (const char* id : {"a", "b"}) h.Started(id, key);
    }
    for (int64_t k = 0; k < 3; ++k) {
      h.Interval("a", key, k, {0});
      if (step == 0 && k == 1) h.Says("b", LinkDown{Oops("LINK_BROKEN")});
      if (step == 0 && k == 1) h.Says("b", LinkBack{.down = 1200 * kMillisecond, .reports = 2});
      h.Interval("b", key, k, {1});
    }
    h.Ended("a", key, 2, {0});
    h.Ended("b", key, 2, {1});
  }
  CHECK(Told(h, "agent b: link down"));
  CHECK(Told(h, "agent b: back after 1.2 s, 2 reports resumed"));
  REQUIRE(h.results.size() == 2);
  CHECK(h.results[0].outcome == StepOutcome::kValid);
  REQUIRE(h.results[0].figures.links.size() == 2);
  CHECK(h.results[0].figures.links[1].agent == "b");
  CHECK(h.results[0].figures.links[1].reconnects == 1);
  CHECK(h.results[0].figures.links[1].down == 1200 * kMillisecond);
  CHECK(h.results[1].figures.links[1].reconnects == 0);
  const auto& facts = h.results[0].facts;
  const auto link = std::find_if(facts.begin(), facts.end(), [](const auto& f) { return f.first == "b: link"; });
  REQUIRE(link != facts.end());
  CHECK(link->second.find("1 reconnects, down 1.2 s") != std::string::npos);
}

TEST_CASE("reports of a lost agent are merged until the phase is sealed, then acknowledged and dropped") {
  Harness h(2);
  h.plan.steps = {OneStep(0, 2)};
  h.plan.steps[0].measure.window_intervals = 100;
  h.Begin();
  h.ToRunning({"a", "b"});
  const PhaseKey key = h.Key(PhaseKind::kMeasure);
  for (int64_t k = 0; k < 3; ++k) h.Interval("a", key, k, {0});
  h.Interval("b", key, 0, {1});
  h.Says("b", AgentGone{Oops("LEASE_ENDED")});
  h.Says("b", AgentReturned{.reports = 4});
  CHECK(Told(h, "agent b: there again"));
  h.Interval("b", key, 1, {1});
  h.Interval("b", key, 2, {1});
  CHECK(h.did.back() == "ack b 3");
  h.Ended("a", key, 2, {0});
  REQUIRE(h.results.size() == 1);
  CHECK(h.results[0].figures.intervals == 2);  // the warm-up is one
  CHECK(h.results[0].figures.fleet.kinds.at(0).completed == 4);
  CHECK(h.results[0].figures.lost_agents == std::vector<std::string>{"b"});
  CHECK(h.results[0].figures.sums_error.ok());
  h.Ended("b", key, 2, {1});  // too late
  CHECK(h.did.back() == "ack b 4");
  CHECK(std::count(h.did.begin(), h.did.end(), "commit b 4") == 0);
  h.Detached("a");
  CHECK(h.machine().outcome() == "aborted");
}

TEST_CASE("after a report of a lost agent that cannot be used nothing of it is merged") {
  Harness h(2);
  h.plan.steps = {OneStep(0, 2)};
  h.plan.steps[0].measure.window_intervals = 100;
  h.Begin();
  h.ToRunning({"a", "b"});
  const PhaseKey key = h.Key(PhaseKind::kMeasure);
  for (int64_t k = 0; k < 3; ++k) h.Interval("a", key, k, {0});
  h.Interval("b", key, 0, {1});
  h.Says("b", AgentGone{Oops("LEASE_ENDED")});
  ++h.sequences["b"];  // one is missing
  h.Interval("b", key, 2, {1});
  h.Interval("b", key, 3, {1});
  CHECK(h.did.back() == "ack b 4");
  h.Ended("a", key, 2, {0});
  REQUIRE(h.results.size() == 1);
  CHECK(h.results[0].figures.intervals == 0);
  CHECK(h.results[0].figures.sums_error.ok());
}

TEST_CASE("a phase that ended by itself before its Start came: its totals follow the refusal") {
  Harness h(1);
  h.plan.steps = {OneStep(0, 1)};
  h.Begin();
  h.Attached("a");
  const PhaseKey key = h.Key(PhaseKind::kMeasure);
  h.Prepared("a", key);
  h.Says("a", Refused{key, Oops("MESSAGE_OUT_OF_ORDER")});
  h.Ended("a", key, -1, {0}, Oops("START_TIMEOUT"));
  CHECK(h.Code() == "MESSAGE_OUT_OF_ORDER");
  REQUIRE(h.results.size() == 1);
  CHECK(h.results[0].outcome == StepOutcome::kFailed);
  h.Detached("a");
  CHECK(h.machine().outcome() == "failed");
}

}  // namespace
}  // namespace muster
