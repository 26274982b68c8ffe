// Going on with a run: what is finished stays, what is not is run again as another attempt, nothing of either is mixed.
#include "controller/store/resume.h"

#include <algorithm>

#include "common/base/status.h"
#include "tests/unit/store/interrupted_run.h"
#include "tests/unit/store/results.h"

namespace muster::test {
namespace {

std::string Code(const absl::Status& status) {
  return GetErrorInfo(status).code;
}

StepResult Result(uint32_t step, StepOutcome outcome) {
  StepResult result = RandomResult(step, 7);
  result.step.index = step;
  result.step.name = step == 0 ? "first" : "second";
  result.step.skip_reason.clear();
  result.outcome = outcome;
  return result;
}

PhaseKey Measure(uint32_t step, uint32_t attempt) {
  return {.run = "cut", .step = step, .phase = PhaseKind::kMeasure, .attempt = attempt};
}

Plan Compiled() {
  Plan plan;
  plan.steps.resize(2);
  plan.steps[0].name = "first";
  plan.steps[1].index = 1;
  plan.steps[1].name = "second";
  return plan;
}

}  // namespace

TEST_CASE("a run whose controller was killed goes on with the step that was cut off, as another attempt") {
  InterruptedRun run;
  REQUIRE(run.writer().SealStep(Measure(0, 0), Result(0, StepOutcome::kValid)).ok());
  run.CommitIntervals("local-1", 4);
  run.CommitIntervals("local-2", 4);
  run.Cut();

  auto point = ReadResumePoint(run.path());
  REQUIRE(point.ok());
  CHECK(point->finished == 1);
  CHECK_FALSE(point->any_invalid);
  CHECK(point->next_attempt == std::map<uint32_t, uint32_t>{{1, 1}});
  CHECK_THAT(point->agents, Catch::Contains("local-1") && Catch::Contains("local-2"));
  auto left = PlanToResume(Compiled(), *point);
  REQUIRE(left.ok());
  REQUIRE(left->steps.size() == 1);
  CHECK(left->steps[0].name == "second");
  CHECK(left->steps[0].first_attempt == 1);

  auto writer = RunWriter::Resume(run.path(), {});
  REQUIRE(writer.ok());
  // While it runs nobody else may, and what was there is there.
  CHECK(Code(RunWriter::Resume(run.path(), {}).status()) == "STORE_LOCKED");
  CHECK(Code(ReadResumePoint(run.path()).status()) == "RUN_RUNNING");
  CHECK((*RunReader::Open(run.path()))->Summary()->outcome == "running");
  REQUIRE((*writer)->WriteAgent({.id = "local-1"}).ok());
  // A new process of an agent of the same name counts its reports from 1 again.
  const RawReport again{.agent = "local-1", .sequence = 1, .key = Measure(1, 1), .bytes = "x"};
  REQUIRE((*writer)->CommitReports({again}).ok());
  auto raw = (*RunReader::Open(run.path()))->RawReports();
  REQUIRE(raw.ok());
  CHECK(std::count_if(raw->begin(), raw->end(), [](const RawReport& r) { return r.key.attempt == 1; }) == 1);
  CHECK(std::count_if(raw->begin(), raw->end(), [](const RawReport& r) { return r.key.attempt == 0; }) == 8);

  REQUIRE((*writer)->SealStep(Measure(1, 1), Result(1, StepOutcome::kValid)).ok());
  CHECK((*RunReader::Open(run.path()))->RawReports()->empty());  // the result replaces both
  REQUIRE((*writer)->Finish("complete", "", 5).ok());
  writer->reset();
  auto reader = RunReader::Open(run.path());
  REQUIRE(reader.ok());
  const auto results = (*reader)->Results();
  REQUIRE(results.ok());
  REQUIRE(results->size() == 2);
  CHECK(results->at(1).outcome == StepOutcome::kValid);
  CHECK((*reader)->Summary()->outcome == "complete");
  CHECK((*reader)->Summary()->finished_wall_micros == 5);
  REQUIRE((*reader)->Agents()->size() == 1);
  CHECK(Code(ReadResumePoint(run.path()).status()) == "RUN_COMPLETE");
}

TEST_CASE("a resumed run that is killed again keeps what it had, and can be resumed again") {
  InterruptedRun run;
  run.CommitIntervals("local-1", 3, 0);
  run.CommitIntervals("local-2", 3, 0);
  run.Cut();
  {
    auto writer = RunWriter::Resume(run.path(), {});
    REQUIRE(writer.ok());
    for (const char* agent : {"local-1", "local-2"}) REQUIRE((*writer)->WriteAgent({.id = agent}).ok());
  }
  const auto point = ReadResumePoint(run.path());
  REQUIRE(point.ok());
  CHECK(point->next_attempt == std::map<uint32_t, uint32_t>{{0, 1}, {1, 0}});
  const auto results = (*RunReader::Open(run.path()))->Results();
  REQUIRE(results.ok());
  REQUIRE(results->size() == 1);
  CHECK(results->at(0).outcome == StepOutcome::kInterrupted);
  CHECK(results->at(0).figures.intervals == 2);
}

TEST_CASE("what failed, was cancelled or was not reached is run; INVALID and OVERLOADED are results") {
  const StepOutcome outcome = GENERATE(StepOutcome::kValid, StepOutcome::kInvalid, StepOutcome::kOverloaded,
                                       StepOutcome::kCancelled, StepOutcome::kFailed, StepOutcome::kSkipped);
  InterruptedRun run;
  REQUIRE(run.writer().SealStep(Measure(0, 2), Result(0, outcome)).ok());
  REQUIRE(run.writer().Finish("aborted", "why", 1).ok());
  run.Cut();
  const auto point = ReadResumePoint(run.path());
  REQUIRE(point.ok());
  INFO(StepOutcomeName(outcome));
  const bool finished =
      outcome == StepOutcome::kValid || outcome == StepOutcome::kInvalid || outcome == StepOutcome::kOverloaded;
  CHECK(point->finished == (finished ? 1 : 0));
  CHECK(point->any_invalid == (finished && outcome != StepOutcome::kValid));
  CHECK(point->next_attempt.contains(0) == !finished);
  if (!finished) CHECK(point->next_attempt.at(0) == 3);
  CHECK(point->next_attempt.at(1) == 0);
}

TEST_CASE("a campaign that compiles to other steps than before is not mixed with them") {
  InterruptedRun run;
  run.Cut();
  const auto point = ReadResumePoint(run.path());
  REQUIRE(point.ok());
  Plan plan = Compiled();
  CHECK(PlanToResume(plan, *point).ok());
  plan.steps[1].name = "other";
  CHECK(Code(PlanToResume(plan, *point).status()) == "RESUME_MISMATCH");
  plan = Compiled();
  plan.steps.pop_back();
  CHECK(Code(PlanToResume(plan, *point).status()) == "RESUME_MISMATCH");
  CHECK(Code(ReadResumePoint(run.runs() + "/no/run.db").status()) == "RUN_UNKNOWN");
}

}  // namespace muster::test
