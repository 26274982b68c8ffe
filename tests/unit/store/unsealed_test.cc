#include "common/base/status.h"
#include "controller/store/sqlite.h"
#include "tests/unit/store/interrupted_run.h"
#include "tests/unit/store/results.h"

// What was committed when the controller went is shown, and shown as what it is.
namespace muster::test {
namespace {

const Check& SumsOf(const StepResult& result) {
  REQUIRE(result.checks.size() == 1);
  REQUIRE(result.checks[0].name == "sums");
  return result.checks[0];
}

StepResult OnlyResult(const std::string& path) {
  auto results = MustOpen(path)->Results();
  INFO(results.status());
  REQUIRE(results.ok());
  REQUIRE(results->size() == 1);
  return results->front();
}

TEST_CASE("a step cut off shows the figures of what all agents had committed") {
  InterruptedRun run;
  run.CommitIntervals("local-1", 6);
  run.CommitIntervals("local-2", 4);
  CHECK(MustOpen(run.path())->Results()->empty());  // it runs, and has no result yet
  run.Cut();

  const StepResult result = OnlyResult(run.path());
  CHECK(result.step.name == "second");
  CHECK(result.outcome == StepOutcome::kInterrupted);
  CHECK(StepOutcomeName(result.outcome) == "INTERRUPTED");
  CHECK_THAT(result.message, Catch::StartsWith("unsealed: "));
  CHECK_THAT(result.message, Catch::Contains("6 of local-1, 4 of local-2"));
  CHECK_THAT(result.message, Catch::Contains("3 of 10 intervals"));
  CHECK_THAT(result.message, Catch::Contains("not checked against totals"));
  CHECK(SumsOf(result).outcome == CheckOutcome::kNotEvaluated);
  CHECK_THAT(SumsOf(result).evidence, Catch::Contains("0 of 2 agents"));

  // Interval 0 is warm-up, 4 and 5 lack an agent.
  const StepFigures& figures = result.figures;
  CHECK(figures.intervals == 3);
  CHECK(figures.intervals_asked == 10);
  CHECK(figures.window() == 3 * kSecond);
  CHECK(figures.missing_count == 0);
  CHECK(figures.lost_agents.empty());
  CHECK(figures.sums_error.ok());
  CHECK(figures.initiators_heard == 2);
  CHECK(Row(figures.fleet, std::nullopt).completed == 3 * 2 * 100);
  CHECK(Row(figures.fleet, OpKind::kRead).response.count() == 3 * 2 * 100);
  CHECK(Row(figures.fleet, OpKind::kRead).response.moments().max == 100'000);
  CHECK(figures.fleet.achieved_depth == 32);
  REQUIRE(figures.initiators.size() == 2);
  CHECK(figures.initiators[1].agent == "local-2");
  CHECK(Row(figures.initiators[1], OpKind::kRead).completed == 300);

  const auto intervals = MustOpen(run.path())->Intervals(1);
  REQUIRE(intervals.ok());
  REQUIRE(intervals->intervals.size() == 4);
  CHECK_FALSE(intervals->intervals[0].in_window);
  CHECK(intervals->intervals[3].in_window);
  CHECK(intervals->intervals[3].kinds[0].completed == 200);

  const auto summary = MustOpen(run.path())->Summary();
  REQUIRE(summary.ok());
  CHECK(summary->outcome == "interrupted");
  CHECK(summary->valid == 0);
  CHECK(summary->unsealed == std::vector<std::string>{"second"});
  CHECK(summary->committed_wall_micros > 1'600'000'000'000'000);
  CHECK(summary->committed_step == "second");
}

TEST_CASE("a step cut off after agents were lost is read by who reports what") {
  // Dealt over all three, local-0 would carry initiator 0 and local-1 the other.
  InterruptedRun run({"local-0"});
  run.CommitIntervals("local-1", 5);
  SECTION("all initiators are reported: figures of the intervals that both committed") {
    run.CommitIntervals("local-2", 4);
    run.Cut();
    const auto results = MustOpen(run.path())->Results();
    REQUIRE(results.ok());
    REQUIRE(results->size() == 1);
    CHECK((*results)[0].outcome == StepOutcome::kInterrupted);
    CHECK((*results)[0].figures.intervals == 3);  // four less the warm-up
    CHECK((*results)[0].figures.fleet.kinds.at(0).completed == 3 * 2 * 100);
  }
  SECTION("an initiator of which nobody has reported: a row, no figures and no damage") {
    run.Cut();
    const auto results = MustOpen(run.path())->Results();
    REQUIRE(results.ok());
    REQUIRE(results->size() == 1);
    CHECK((*results)[0].figures.intervals == 0);
  }
}

TEST_CASE("a run cut off between steps, or before the first, says how far it came") {
  InterruptedRun run;
  const bool began = GENERATE(false, true);
  const PhaseKey first{.run = "cut", .step = 0, .phase = PhaseKind::kMeasure, .attempt = 0};
  if (began) REQUIRE(run.writer().SealStep(first, RandomResult(0, 3)).ok());
  CHECK(MustOpen(run.path())->Summary()->committed_wall_micros == 0);  // that is for those left alone
  run.Cut();
  const auto summary = MustOpen(run.path())->Summary();
  REQUIRE(summary.ok());
  CHECK(summary->outcome == "interrupted");
  CHECK(summary->unsealed.empty());
  CHECK((summary->committed_wall_micros != 0) == began);
  CHECK(summary->committed_step == (began ? "first" : ""));
  CHECK(MustOpen(run.path())->Results()->size() == (began ? 1 : 0));
}

TEST_CASE("a step cut off before an interval was whole has a row and no figures") {
  InterruptedRun run;
  run.CommitIntervals("local-1", 3);
  run.Cut();
  const StepResult result = OnlyResult(run.path());
  CHECK(result.outcome == StepOutcome::kInterrupted);
  CHECK_THAT(result.message, Catch::Contains("3 of local-1, 0 of local-2"));
  CHECK_THAT(result.message, Catch::Contains("there are no figures"));
  CHECK(result.figures.intervals == 0);
  CHECK(Row(result.figures.fleet, std::nullopt).completed == 0);
  CHECK(MustOpen(run.path())->Intervals(1)->intervals.empty());
}

TEST_CASE("cut off after all totals: the sums are checked, and still nobody judged it") {
  const uint64_t lie = GENERATE(0, 7);
  InterruptedRun run;
  run.CommitIntervals("local-1", 11);
  run.CommitIntervals("local-2", 11);
  run.CommitTotals("local-1");
  run.CommitTotals("local-2", lie);
  run.Cut();
  const StepResult result = OnlyResult(run.path());
  CHECK(result.outcome == StepOutcome::kInterrupted);
  CHECK(result.figures.intervals == 10);
  CHECK(Row(result.figures.fleet, std::nullopt).completed == 10 * 2 * 100);
  CHECK(SumsOf(result).outcome == (lie == 0 ? CheckOutcome::kPass : CheckOutcome::kFail));
  if (lie != 0) CHECK_THAT(SumsOf(result).evidence, Catch::Contains("SUMS_MISMATCH"));
}

TEST_CASE("totals of some agents are no mismatch") {
  InterruptedRun run;
  run.CommitIntervals("local-1", 11);
  run.CommitTotals("local-1");
  run.CommitIntervals("local-2", 5);
  run.Cut();
  const StepResult result = OnlyResult(run.path());
  CHECK(result.figures.sums_error.ok());
  CHECK(result.figures.intervals == 4);
  CHECK_THAT(SumsOf(result).evidence, Catch::Contains("1 of 2 agents"));
}

TEST_CASE("sealed steps stand beside the one that was cut off; a closed run with one keeps its outcome") {
  InterruptedRun run;
  StepResult first = RandomResult(0, 3);
  REQUIRE(run.writer().SealStep({.run = "cut", .step = 0, .phase = PhaseKind::kMeasure, .attempt = 0}, first).ok());
  run.CommitIntervals("local-1", 4);
  run.CommitIntervals("local-2", 4);
  const bool closed = GENERATE(false, true);
  if (closed) REQUIRE(run.writer().Finish("failed", "the disk is full [STORE_FULL]", 9).ok());
  run.Cut();
  auto results = MustOpen(run.path())->Results();
  REQUIRE(results.ok());
  REQUIRE(results->size() == 2);
  CheckSame((*results)[0], first);
  CHECK((*results)[1].outcome == StepOutcome::kInterrupted);
  const auto summary = MustOpen(run.path())->Summary();
  CHECK(summary->outcome == (closed ? "failed" : "interrupted"));
  CHECK(summary->unsealed.size() == 1);
}

TEST_CASE("a committed report that is gone, changed or uncounted is damage") {
  InterruptedRun run;
  run.CommitIntervals("local-1", 4);
  run.CommitIntervals("local-2", 4);
  run.Cut();
  const char* sql = GENERATE("DELETE FROM raw WHERE rowid=3", "DELETE FROM raw",
                             "UPDATE raw SET bytes=zeroblob(20) WHERE rowid=2", "UPDATE raw SET step=0 WHERE rowid=8",
                             "DELETE FROM tally WHERE tab='raw'", "DELETE FROM plan", "DELETE FROM agents");
  INFO(sql);
  REQUIRE((*Database::Open(run.path(), Database::Mode::kWrite))->Exec(sql).ok());
  const auto results = MustOpen(run.path())->Results();
  INFO(results.status());
  CHECK(GetErrorInfo(results.status()).code == "RUN_DAMAGED");
  CHECK(GetErrorInfo(results.status()).place == run.path());
}

}  // namespace
}  // namespace muster::test
