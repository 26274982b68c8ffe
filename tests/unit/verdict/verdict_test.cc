#include "controller/verdict/verdict.h"

#include <catch2/catch.hpp>

#include "common/base/status.h"

namespace muster {
namespace {

constexpr Nanos kTimeout = 90 * kSecond;

StepFigures Good() {
  StepFigures f;
  f.first_interval = 5;
  f.intervals_asked = f.intervals = 30;
  f.initiators_asked = f.initiators_heard = 3;
  KindFigures all;
  all.completed = 12345;
  all.bytes = 999;
  f.fleet.kinds = {all};
  f.links = {{.agent = "a"}, {.agent = "b"}};
  return f;
}

const Check& Find(const std::vector<Check>& checks, std::string_view name) {
  for (const Check& check : checks) {
    if (check.name == name) return check;
  }
  FAIL("no check " << name);
  return checks.front();
}

TEST_CASE("all is well: six checks pass, each with its figures") {
  const auto checks = Evaluate(Good(), kTimeout);
  REQUIRE(checks.size() == 6);
  for (const Check& check : checks) CHECK(check.outcome == CheckOutcome::kPass);
  CHECK_FALSE(AnyFailed(checks));
  CHECK_THAT(Find(checks, "sums").evidence, Catch::Contains("12345 operations and 999 bytes"));
  CHECK_THAT(Find(checks, "coverage").evidence, Catch::Contains("3 initiators asked, 3 heard, 0 agents lost"));
  CHECK_THAT(Find(checks, "errors").evidence, Catch::Contains("0 failed operations"));
  CHECK_THAT(Find(checks, "intervals").evidence, Catch::Contains("30 of 30 intervals of the window [5, 35)"));
  CHECK_THAT(Find(checks, "operation_age").evidence, Catch::Contains("0 operations outstanding"));
}

TEST_CASE("each check fails alone, and says why") {
  StepFigures f = Good();
  std::string name;
  std::string evidence;
  SECTION("sums") {
    name = "sums";
    evidence = "agent b initiator 1 read: 3 is not 4";
    f.sums_error = MakeError(absl::StatusCode::kDataLoss,
                             {.code = "SUMS_MISMATCH", .place = "agent b initiator 1 read", .message = "3 is not 4"});
  }
  SECTION("coverage") {
    name = "coverage";
    evidence = "3 initiators asked, 2 heard";
    f.initiators_heard = 2;
  }
  SECTION("errors") {
    name = "errors";
    evidence = "2 failed operations in the whole phase, limit 0: 2 write no_space (ENOSPC)";
    f.errors.push_back({.kind = OpKind::kWrite, .outcome = Outcome::kNoSpace, .native_code = 28, .count = 2});
  }
  SECTION("intervals") {
    name = "intervals";
    evidence =
        "28 of 30 intervals of the window [5, 35) delivered by every initiator; 2 missing: agent a interval 7 (gap)";
    f.intervals = 28;
    f.missing_count = 2;
    f.missing = {"agent a interval 7 (gap)"};
  }
  SECTION("old at the end") {
    name = "operation_age";
    evidence = "1 older than the op timeout of 1m30s";
    f.straggle_count = 2;
    f.straggle_oldest = 93 * kSecond;
    f.stragglers = {{.age_at_end = kTimeout + 1, .final_age = 93 * kSecond, .ended = true},
                    {.age_at_end = kTimeout, .final_age = 91 * kSecond, .ended = true}};
  }
  SECTION("never ended") {
    name = "operation_age";
    evidence = "1 never ended";
    f.straggle_count = 1;
    f.stragglers = {{.age_at_end = 5, .final_age = 95 * kSecond, .ended = false}};
  }
  SECTION("poisoned") {
    name = "operation_age";
    evidence = "abandoned operations still hold their buffers";
    f.poisoned = true;
  }
  const auto checks = Evaluate(f, kTimeout);
  for (const Check& check : checks) {
    INFO(check.name << ": " << check.evidence);
    CHECK((check.outcome == CheckOutcome::kFail) == (check.name == name));
  }
  CHECK_THAT(Find(checks, name).evidence, Catch::Contains(evidence));
  CHECK(AnyFailed(checks));
}

TEST_CASE("agents without TLS and of other builds are warned of, where there are any") {
  StepFigures f = Good();
  const size_t usual = Evaluate(f, kTimeout).size();
  f.insecure_agents = {"a", "b"};
  f.other_builds = {"b is 0.0.9"};
  const auto checks = Evaluate(f, kTimeout);
  CHECK(checks.size() == usual + 2);
  CHECK(Find(checks, "insecure_tcp").outcome == CheckOutcome::kWarn);
  CHECK_THAT(Find(checks, "insecure_tcp").evidence, Catch::Contains("a, b"));
  CHECK(Find(checks, "builds").outcome == CheckOutcome::kWarn);
  CHECK_THAT(Find(checks, "builds").evidence, Catch::Contains("b is 0.0.9"));
  CHECK_FALSE(AnyFailed(checks));
}

TEST_CASE("a fleet measured anew without a lost agent is whole with a warning, unless somebody else is absent") {
  StepFigures f = Good();
  f.left_out = {"local-2"};
  f.left_out_initiators = 1;
  f.initiators_heard = 2;
  const auto checks = Evaluate(f, kTimeout);
  CHECK(Find(checks, "coverage").outcome == CheckOutcome::kWarn);
  CHECK_THAT(Find(checks, "coverage").evidence, Catch::Contains("without local-2 (1 initiators)"));
  CHECK(Find(checks, "sums").outcome == CheckOutcome::kPass);
  CHECK_FALSE(AnyFailed(checks));
  f.initiators_heard = 1;
  CHECK(Find(Evaluate(f, kTimeout), "coverage").outcome == CheckOutcome::kFail);
}

TEST_CASE("a lost agent fails coverage; what its totals would have shown is not evaluated") {
  StepFigures f = Good();
  f.lost_agents = {"local-2"};
  const auto checks = Evaluate(f, kTimeout);
  CHECK(Find(checks, "coverage").outcome == CheckOutcome::kFail);
  CHECK_THAT(Find(checks, "coverage").evidence, Catch::Contains("local-2"));
  CHECK(Find(checks, "sums").outcome == CheckOutcome::kNotEvaluated);
  CHECK_THAT(Find(checks, "sums").evidence, Catch::Contains("local-2"));
  CHECK(Find(checks, "operation_age").outcome == CheckOutcome::kNotEvaluated);
}

TEST_CASE("cancelled: what was not measured is not evaluated, never passed") {
  StepFigures f = Good();
  f.intervals = 0;
  CHECK(Find(Evaluate(f, kTimeout), "intervals").outcome == CheckOutcome::kNotEvaluated);
  CHECK_THAT(Find(Evaluate(f, kTimeout), "intervals").evidence, Catch::Contains("before the window began"));
  f.intervals = 12;
  CHECK(Find(Evaluate(f, kTimeout), "intervals").outcome == CheckOutcome::kNotEvaluated);
  CHECK_THAT(Find(Evaluate(f, kTimeout), "intervals").evidence, Catch::Contains("12 of 30"));
  f.initiators_heard = 0;
  f.intervals = 0;
  for (const Check& check : Evaluate(f, kTimeout)) {
    INFO(check.name);
    CHECK(check.outcome == CheckOutcome::kNotEvaluated);
    CHECK_FALSE(check.evidence.empty());
  }
}

TEST_CASE("operations aborted by the end of a phase are told, not counted as the target's failures") {
  StepFigures f = Good();
  f.errors.push_back({.kind = OpKind::kRead, .outcome = Outcome::kAborted, .native_code = 0, .count = 4});
  const auto checks = Evaluate(f, kTimeout);
  CHECK(Find(checks, "errors").outcome == CheckOutcome::kPass);
  CHECK_THAT(Find(checks, "errors").evidence, Catch::Contains("4 aborted"));
}

TEST_CASE("a link that came back, or coarse reports, warn and name whose") {
  StepFigures f = Good();
  CHECK(Find(Evaluate(f, kTimeout), "links").evidence == "2 agents, no reconnect, every interval reported whole");
  f.links[1] = {.agent = "b", .reconnects = 2, .down = 1500 * kMillisecond};
  Check links = Find(Evaluate(f, kTimeout), "links");
  CHECK(links.outcome == CheckOutcome::kWarn);
  CHECK_THAT(links.evidence, Catch::Contains("2 reconnects, down 1.5 s in all") && Catch::Contains("b: 2 reconnects"));
  f.links[1] = {.agent = "b", .coarse_deltas = 7};
  links = Find(Evaluate(f, kTimeout), "links");
  CHECK(links.outcome == CheckOutcome::kWarn);
  CHECK_THAT(links.evidence, Catch::Contains("7 coarse interval reports"));
  CHECK_FALSE(AnyFailed({links}));
  f = Good();
  f.lost_agents = {"b"};
  CHECK(Find(Evaluate(f, kTimeout), "links").outcome == CheckOutcome::kNotEvaluated);
  f = Good();
  f.links.clear();
  CHECK(Find(Evaluate(f, kTimeout), "links").outcome == CheckOutcome::kNotEvaluated);
}

TEST_CASE("connections are judged where there are any: down time warns, and names whose") {
  StepFigures f = Good();
  CHECK(Evaluate(f, 90 * kSecond).size() == 6);
  f.connections = {{.initiator = 0, .connection = 0}, {.initiator = 1, .connection = 2}};
  auto checks = Evaluate(f, 90 * kSecond);
  REQUIRE(checks.size() == 7);
  CHECK(checks.back().outcome == CheckOutcome::kPass);
  CHECK(checks.back().evidence == "2 connections, none was down");
  f.lost_agents = {"b"};
  checks = Evaluate(f, 90 * kSecond);
  CHECK(checks.back().outcome == CheckOutcome::kNotEvaluated);
  CHECK_THAT(checks.back().evidence, Catch::EndsWith("not known: b"));
  f.lost_agents.clear();
  f.connections[1].down = 1600 * kMillisecond;
  checks = Evaluate(f, 90 * kSecond);
  CHECK(checks.back().outcome == CheckOutcome::kWarn);
  CHECK(checks.back().evidence == "2 connections, down 1.6 s in all: initiator 1 connection 2");
  CHECK_FALSE(AnyFailed(checks));
}

}  // namespace
}  // namespace muster
