#include <ctime>

#include "common/base/status.h"
#include "common/wire/codec.h"
#include "controller/aggregate/aggregator.h"
#include "tests/unit/store/store_support.h"

namespace muster::test {
namespace {

// What an initiator of a fast target reports of one interval: two kinds, 10,000 operations.
InitiatorDelta Initiator(uint32_t index, Rng& rng) {
  InitiatorDelta out;
  out.initiator = index;
  for (OpKind k : {OpKind::kRead, OpKind::kWrite}) {
    Histogram histogram;
    for (int i = 0; i < 5'000; ++i) histogram.Record(20'000 + static_cast<uint64_t>(rng.Exponential(80'000)));
    KindDelta& kind = out.kinds.emplace_back();
    kind.kind = k;
    kind.completed = histogram.count();
    kind.bytes = kind.completed * 4096;
    kind.response = histogram.Encode();
  }
  out.offered_integral = 16 * Uint128{kSecond};
  out.wire_integral = 15 * Uint128{kSecond};
  return out;
}

uint64_t SizeOf(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  return error ? 0 : size;
}

TEST_CASE("the estimate is within twice of what a run's file takes, either way") {
  Plan plan;
  Step& step = plan.steps.emplace_back();
  step.initiators = 6;
  step.measure.warmup_intervals = 10;
  step.measure.window_intervals = 70;
  step.measure.workload.read = 0.7;
  PhaseShape shape;
  shape.warmup_intervals = 10;
  shape.window_intervals = 70;
  shape.workload = step.measure.workload;
  for (uint32_t i = 0; i < step.initiators; ++i) shape.agents["agent-" + std::to_string(i)] = {i};

  TempDir dir;
  auto writer = MustCreate(dir.path(), Header("a"));
  REQUIRE(writer->WritePlan(plan).ok());
  PhaseAggregator aggregator(shape);
  const PhaseKey key{.run = "a", .step = 0, .phase = PhaseKind::kMeasure, .attempt = 0};
  Rng rng(1);
  for (int64_t k = 0; k < 80; ++k) {
    std::vector<RawReport> batch;
    for (const auto& [agent, initiators] : shape.agents) {
      IntervalDelta delta;
      delta.interval = k;
      delta.initiators.push_back(Initiator(initiators.front(), rng));
      v1::ReportMessage message;
      *message.mutable_interval() = ToProto(delta);
      batch.push_back(
          {.agent = agent, .sequence = static_cast<uint64_t>(k) + 1, .key = key, .bytes = message.SerializeAsString()});
      REQUIRE(aggregator.Add(agent, delta).ok());
    }
    REQUIRE(writer->CommitReports(batch).ok());
    for (const FleetInterval& interval : aggregator.TakeComplete()) REQUIRE(writer->WriteInterval(key, interval).ok());
  }
  const uint64_t peak = SizeOf(writer->path()) + SizeOf(writer->path() + "-wal");
  const uint64_t estimate = EstimateStoreBytes(plan);
  WARN("estimated " << estimate << ", peak " << peak);
  CHECK(estimate < 2 * peak);
  CHECK(peak < 2 * estimate);

  StepResult result;
  result.figures = aggregator.Seal(79);
  REQUIRE(writer->SealStep(key, result).ok());
  REQUIRE(writer->Finish("complete", "", 1).ok());
  // The raw reports are gone from the file that is left.
  const uint64_t final = SizeOf(writer->path());
  WARN("finished " << final);
  CHECK(final < estimate);
  CHECK(final < peak * 3 / 4);
}

TEST_CASE("an estimate grows with initiators, intervals and pacing, and leaves out what is skipped") {
  Plan plan;
  Step step;
  step.initiators = 24;
  step.measure.window_intervals = 3 * 3600;
  step.measure.workload.read = 0.5;
  plan.steps = {step};
  const uint64_t closed = EstimateStoreBytes(plan);
  plan.steps[0].measure.workload.pacing = Pacing::kFixed;
  CHECK(EstimateStoreBytes(plan) > closed);
  plan.steps[0].skip_reason = "cannot";
  CHECK(EstimateStoreBytes(plan) < 8 << 20);
}

TEST_CASE("space is checked before it is needed, also below a folder that is not there yet") {
  TempDir dir;
  CHECK(CheckSpace(dir.path() + "/not/yet", 4096).ok());
  const ErrorInfo info = GetErrorInfo(CheckSpace(dir.path(), uint64_t{1} << 60));
  CHECK(info.code == "STORE_FULL");
  CHECK(info.place == dir.path());
  CHECK(GetErrorInfo(CheckSpace(dir.path(), UINT64_MAX)).code == "STORE_FULL");
}

TEST_CASE("a transaction of 24 reports of 7 KB costs a few milliseconds of CPU") {
  TempDir dir;
  auto writer = MustCreate(dir.path(), Header("a"));
  constexpr int kTransactions = 60;
  std::vector<std::vector<RawReport>> batches;
  for (int t = 0; t < kTransactions; ++t) {
    auto& batch = batches.emplace_back();
    for (int i = 0; i < 24; ++i) batch.push_back(Report("agent-" + std::to_string(i), t + 1, 7000));
  }
  timespec begin{};
  timespec end{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
  for (const auto& batch : batches) REQUIRE(writer->CommitReports(batch).ok());
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
  const double millis =
      static_cast<double>(end.tv_sec - begin.tv_sec) * 1e3 + static_cast<double>(end.tv_nsec - begin.tv_nsec) / 1e6;
  WARN(millis / kTransactions << " ms CPU a transaction");
  CHECK(millis / kTransactions < 25);  // five times a generous nominal; sanitizers included
}

}  // namespace
}  // namespace muster::test
