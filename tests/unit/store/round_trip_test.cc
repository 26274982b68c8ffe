#include "common/base/status.h"
#include "tests/unit/store/results.h"
#include "tests/unit/store/store_support.h"

namespace muster::test {
namespace {

const PhaseKey kMeasure{.run = "a", .step = 0, .phase = PhaseKind::kMeasure, .attempt = 0};

TEST_CASE("a step's result comes back as it was, to the bit") {
  TempDir dir;
  auto writer = MustCreate(dir.path(), Header("a"));
  std::vector<StepResult> written;
  for (uint32_t step = 0; step < 3; ++step) {
    written.push_back(RandomResult(step, 7 + step));
    PhaseKey key = kMeasure;
    key.step = step;
    REQUIRE(writer->SealStep(key, written.back()).ok());
  }
  auto results = MustOpen(writer->path())->Results();
  INFO(results.status());
  REQUIRE(results.ok());
  REQUIRE(results->size() == 3);
  for (size_t i = 0; i < 3; ++i) CheckSame((*results)[i], written[i]);
  const RunSummary summary = *MustOpen(writer->path())->Summary();
  CHECK(summary.valid == 1);
  CHECK(summary.invalid == 1);
}

TEST_CASE("the latest attempt of a step is its result") {
  TempDir dir;
  auto writer = MustCreate(dir.path(), Header("a"));
  PhaseKey again = kMeasure;
  again.attempt = 1;
  REQUIRE(writer->SealStep(kMeasure, RandomResult(0, 1)).ok());
  const StepResult second = RandomResult(0, 2);
  REQUIRE(writer->SealStep(again, second).ok());
  REQUIRE(writer->WriteInterval(kMeasure, RandomInterval(0, 3)).ok());
  REQUIRE(writer->WriteInterval(again, RandomInterval(1, 4)).ok());
  auto reader = MustOpen(writer->path());
  auto results = reader->Results();
  REQUIRE(results.ok());
  REQUIRE(results->size() == 1);
  CheckSame(results->front(), second);
  auto intervals = reader->Intervals(0);
  REQUIRE(intervals.ok());
  REQUIRE(intervals->intervals.size() == 1);
  CHECK(intervals->intervals[0].interval == 1);
}

TEST_CASE("a skipped point comes back though its workload cannot be measured") {
  TempDir dir;
  auto writer = MustCreate(dir.path(), Header("a"));
  StepResult skipped;
  skipped.outcome = StepOutcome::kSkipped;
  skipped.step.name = "tiny";
  skipped.step.skip_reason = "512 B on a device of 4096 B blocks";
  skipped.step.measure.window_intervals = 0;
  REQUIRE(writer->SealStep(kMeasure, skipped).ok());
  auto results = MustOpen(writer->path())->Results();
  INFO(results.status());
  REQUIRE(results.ok());
  CHECK(results->front().step.skip_reason == skipped.step.skip_reason);
}

TEST_CASE("intervals come back as they were, initiators' histograms as long as they are kept") {
  TempDir dir;
  FakeClock clock(kHour);
  StoreOptions options;
  options.clock = &clock;
  const int mode = GENERATE(0, 1, 2);  // all kept, ended by bytes, ended by age
  std::vector<FleetInterval> written;
  uint64_t counts = 0;
  for (int64_t k = 0; k < 10; ++k) {
    written.push_back(RandomInterval(k, 100 + k));
    for (const InitiatorDelta& initiator : written.back().initiators) {
      for (const KindDelta& kind : initiator.kinds) counts += kind.response.counts.size();
    }
  }
  if (mode == 1) options.retention_bytes = counts;  // about half of all with wait and service
  auto writer = MustCreate(dir.path(), Header("a"), options);
  for (const FleetInterval& interval : written) {
    REQUIRE(writer->WriteInterval(kMeasure, interval).ok());
    if (mode == 2) clock.Advance(6 * kHour);
  }
  auto read = MustOpen(writer->path())->Intervals(0);
  INFO(read.status());
  REQUIRE(read.ok());
  REQUIRE(read->intervals.size() == 10);
  size_t kept = 0;
  for (size_t i = 0; i < 10; ++i) {
    const FleetInterval& got = read->intervals[i];
    const bool whole = got.initiators == written[i].initiators;
    kept += whole ? 1 : 0;
    CHECK((whole || kept == 0));  // the oldest go first
    FleetInterval expected = written[i];
    if (!whole) DropCounts(expected);
    CHECK(got.initiators == expected.initiators);  // moments and counters for ever
    CheckSameFleet(got, expected);
  }
  if (mode == 0) CHECK(kept == 10);
  if (mode == 1) CHECK((kept > 1 && kept < 9));
  // Written every 6 h: at the last one those of 24 h and less ago are there.
  if (mode == 2) CHECK(kept == 5);
}

}  // namespace
}  // namespace muster::test
