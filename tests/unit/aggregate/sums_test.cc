#include <catch2/catch.hpp>

#include "common/base/status.h"
#include "tests/unit/aggregate/deltas.h"

namespace muster::test {
namespace {

constexpr OpKind kRead = OpKind::kRead;
constexpr OpKind kWrite = OpKind::kWrite;

struct Phase {
  std::vector<IntervalDelta> a, b;
  PhaseTotals totals_a, totals_b;
};

Phase Honest() {
  Phase phase;
  KindDelta failing = Ops(kWrite, {70, 80});
  failing.errors.push_back(Failure(Outcome::kIo, 5, {90}));
  phase.a = {Interval(0, {Initiator(0, {Ops(kRead, {10, 20})})}), Interval(1, {Initiator(0, {failing})}),
             Drain(2, {Initiator(0, {Ops(kWrite, {5})})})};
  phase.b = {Interval(0, {Initiator(1, {Ops(kRead, {30})})}), Interval(1, {Initiator(1, {Ops(kRead, {40})})})};
  phase.totals_a = TotalsOf(phase.a);
  phase.totals_b = TotalsOf(phase.b);
  return phase;
}

absl::Status SumsOf(const Phase& phase) {
  PhaseAggregator aggregator(Shape({{"a", {0}}, {"b", {1}}}, 1, 1));
  for (const auto& delta : phase.a) REQUIRE(aggregator.Add("a", delta).ok());
  for (const auto& delta : phase.b) REQUIRE(aggregator.Add("b", delta).ok());
  REQUIRE(aggregator.AddTotals("a", phase.totals_a).ok());
  REQUIRE(aggregator.AddTotals("b", phase.totals_b).ok());
  return aggregator.Seal(1).sums_error;
}

KindTotals& Total(PhaseTotals& totals, OpKind kind) {
  return totals.initiators[0].kinds[static_cast<size_t>(kind)];
}

TEST_CASE("honest totals add up, warm-up and drain included") {
  CHECK(SumsOf(Honest()).ok());
}

TEST_CASE("a corrupted total is named: agent, initiator, kind and both values") {
  struct Case {
    std::string name;
    std::function<void(Phase&)> corrupt;
    std::string place, left, right;
  };
  const Case c = GENERATE(
      Case{"submitted", [](Phase& p) { Total(p.totals_a, kRead).submitted += 1; }, "agent a initiator 0 read",
           "submitted 3", "abandoned 2"},
      Case{"completed", [](Phase& p) { ++Total(p.totals_b, kRead).completed, ++Total(p.totals_b, kRead).submitted; },
           "agent b initiator 1 read", "sum over intervals 2", "completed 3"},
      Case{"bytes", [](Phase& p) { Total(p.totals_a, kWrite).bytes -= 1; }, "agent a initiator 0 write",
           "sum over intervals 12288", "total 12287"},
      Case{"failed", [](Phase& p) { --Total(p.totals_a, kWrite).failed, ++Total(p.totals_a, kWrite).aborted; },
           "agent a initiator 0 write", "sum over intervals 1", "total 0"},
      Case{"abandoned", [](Phase& p) { Total(p.totals_b, kRead).abandoned += 7; }, "agent b initiator 1 read",
           "submitted 2", "abandoned 9"},
      Case{"kind nobody reported",
           [](Phase& p) { Total(p.totals_b, OpKind::kTrim) = {.submitted = 4, .completed = 4}; },
           "agent b initiator 1 trim", "sum over intervals 0", "completed 4"},
      Case{"no initiator in the totals", [](Phase& p) { p.totals_b.initiators.clear(); }, "agent b initiator 1 read",
           "sum over intervals 2", "completed 0"});
  INFO(c.name);
  Phase phase = Honest();
  c.corrupt(phase);
  const ErrorInfo info = GetErrorInfo(SumsOf(phase));
  CHECK(info.code == "SUMS_MISMATCH");
  CHECK(info.place == c.place);
  CHECK_THAT(info.message, Catch::Contains(c.left));
  CHECK_THAT(info.message, Catch::Contains(c.right));
}

TEST_CASE("a delta whose histogram does not count what it says completed") {
  Phase phase = Honest();
  phase.b[1].initiators[0].kinds[0].completed = 2;
  phase.totals_b = TotalsOf(phase.b);  // even if the totals agree
  const ErrorInfo info = GetErrorInfo(SumsOf(phase));
  CHECK(info.code == "SUMS_MISMATCH");
  CHECK(info.place == "agent b initiator 1 read interval 1");
  CHECK_THAT(info.message, Catch::Contains("response histogram: counts 1, completed 2"));

  phase = Honest();
  phase.a[0].initiators[0].kinds[0].wait = Encoded({1});
  CHECK_THAT(GetErrorInfo(SumsOf(phase)).message, Catch::Contains("wait histogram: counts 1, completed 2"));

  phase = Honest();
  phase.a[1].initiators[0].kinds[0].errors[0].count = 3;
  CHECK_THAT(GetErrorInfo(SumsOf(phase)).message, Catch::Contains("error histogram: counts 1, errors 3"));
}

TEST_CASE("a lost interval of an agent that is there is a mismatch, in the warm-up too") {
  Phase phase = Honest();
  phase.b.erase(phase.b.begin());
  const ErrorInfo info = GetErrorInfo(SumsOf(phase));
  CHECK(info.code == "SUMS_MISMATCH");
  CHECK(info.place == "agent b initiator 1 read");
}

TEST_CASE("an agent that is there and leaves no totals cannot be checked, which is an error") {
  PhaseAggregator aggregator(Shape({{"a", {0}}}, 0, 1));
  REQUIRE(aggregator.Add("a", Interval(0, {Initiator(0, {})})).ok());
  const ErrorInfo info = GetErrorInfo(aggregator.Seal(0).sums_error);
  CHECK(info.code == "SUMS_MISMATCH");
  CHECK(info.place == "agent a");
}

}  // namespace
}  // namespace muster::test
