#include "tests/unit/report/run_support.h"

#include <sstream>

#include "controller/aggregate/aggregator.h"
#include "tests/unit/aggregate/deltas.h"

namespace muster::test {

std::unique_ptr<KnownRun> MakeKnownRun(bool held) {
  auto run = std::make_unique<KnownRun>();
  auto writer = MustCreate(run->dir.path(), Header("known"));
  Plan plan;
  plan.steps.resize(2);
  REQUIRE(writer->WritePlan(plan).ok());
  const PhaseKey key{.run = "known", .step = 0, .phase = PhaseKind::kMeasure, .attempt = 0};
  PhaseShape shape = Shape({{"local-1", {0}}, {"local-2", {1}}}, 1, 2, 0.5);
  PhaseAggregator aggregator(shape);
  std::map<std::string, std::vector<IntervalDelta>> deltas;
  for (int64_t k = 0; k < 3; ++k) {
    for (const auto& [agent, initiators] : shape.agents) {
      InitiatorDelta initiator = Initiator(initiators[0], {Ops(OpKind::kRead, std::vector<uint64_t>(1000, 100'000)),
                                                           Ops(OpKind::kWrite, std::vector<uint64_t>(1000, 300'000))});
      initiator.offered_integral = 16 * Uint128{kSecond};
      deltas[agent].push_back(Interval(k, {initiator}));
      const IntervalDelta& delta = deltas[agent].back();
      REQUIRE(aggregator.Add(agent, held ? Stripped(delta) : delta).ok());
    }
  }
  for (const auto& [agent, initiators] : shape.agents) {
    for (const auto& [kind, value] : {std::pair(OpKind::kRead, 100'000), std::pair(OpKind::kWrite, 300'000)}) {
      if (!held) continue;
      REQUIRE(aggregator.AddHeld(agent, Held(initiators[0], 0, 0, Ops(kind, std::vector<uint64_t>(1000, value)))).ok());
      REQUIRE(aggregator.AddHeld(agent, Held(initiators[0], 1, 2, Ops(kind, std::vector<uint64_t>(2000, value)))).ok());
    }
  }
  for (const auto& [agent, all] : deltas) REQUIRE(aggregator.AddTotals(agent, TotalsOf(all)).ok());
  StepResult result;
  result.step.name = "db[initiators=2,load=2T8Q]";
  result.step.initiators = 2;
  result.step.target = "scratch";
  result.step.sweep_point = {{"initiators", "2"}, {"load", "2T8Q"}};
  result.step.measure.workload = shape.workload;
  result.step.measure.workload.size = 1 << 30;
  result.step.measure.warmup_intervals = 1;
  result.step.measure.window_intervals = 2;
  result.figures = aggregator.Seal(2);
  REQUIRE(result.figures.sums_error.ok());
  result.outcome = StepOutcome::kValid;
  result.checks = {{.name = "errors", .outcome = CheckOutcome::kPass, .evidence = "0 failed, \"limit\" 0"}};
  result.facts = {{"local-1: ring", "DEFER_TASKRUN\x1b[31m"},
                  {"local-1: scratch: note", "target on the same host"},
                  {"local-2: measure note", "target on the same host"},
                  {"local-2: footnote", "none"}};
  result.fill_bytes = 1'000'000'000;
  result.fill_time = 4 * kSecond;
  for (const FleetInterval& interval : aggregator.TakeComplete()) REQUIRE(writer->WriteInterval(key, interval).ok());
  REQUIRE(writer->SealStep(key, result).ok());
  StepResult skipped;
  skipped.step.index = 1;
  skipped.step.name = "tiny, \"odd\"";
  skipped.step.skip_reason = "512 B on 4096 B blocks";
  skipped.outcome = StepOutcome::kSkipped;
  PhaseKey second = key;
  second.step = 1;
  REQUIRE(writer->SealStep(second, skipped).ok());
  REQUIRE(writer->Finish("complete", "", 1'700'000'100'000'000).ok());
  run->reader = MustOpen(writer->path());
  return run;
}

std::unique_ptr<RandomRun> MakeRandomRun() {
  auto run = std::make_unique<RandomRun>();
  auto writer = MustCreate(run->dir.path(), Header("random"));
  REQUIRE(writer->WriteAgent({.id = "local-1", .hostname = "nas\xff"}).ok());  // not UTF-8
  REQUIRE(writer->WriteEvent(5, "agent local-1 joined").ok());
  for (uint32_t step = 0; step < 2; ++step) {
    run->results.push_back(RandomResult(step, 40 + step));
    const PhaseKey key{.run = "random", .step = step, .phase = PhaseKind::kMeasure, .attempt = 0};
    for (int64_t k = 0; k < 4 && step == 0; ++k) {
      run->intervals.push_back(RandomInterval(k, 60 + k));
      REQUIRE(writer->WriteInterval(key, run->intervals.back()).ok());
    }
    REQUIRE(writer->SealStep(key, run->results.back()).ok());
  }
  run->reader = MustOpen(writer->path());
  return run;
}

std::string ExportText(RunReader& reader, ExportFormat format) {
  std::ostringstream out;
  const absl::Status status = Export(reader, format, out);
  INFO(status);
  REQUIRE(status.ok());
  return out.str();
}

}  // namespace muster::test
