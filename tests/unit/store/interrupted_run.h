#pragma once
#include <map>
#include <string>
#include <vector>

#include "common/wire/codec.h"
#include "controller/aggregate/aggregator.h"
#include "muster/v1/agent_link.pb.h"
#include "tests/unit/aggregate/deltas.h"
#include "tests/unit/store/store_support.h"

namespace muster::test {

// Writes what a run of two agents with one initiator each commits, and leaves off where a test wants it to: step 0
// ("first") and 1 ("second"), 1 interval of warm-up and a window of 10, 100 reads of 100 us an interval and initiator.
class InterruptedRun {
 public:
  // `lost`: agents that were there when the run began and carry nothing now.
  explicit InterruptedRun(const std::vector<std::string>& lost = {}) {
    writer_ = MustCreate(dir_.path(), Header("cut"));
    Plan plan;
    plan.steps.resize(2);
    for (uint32_t i = 0; i < 2; ++i) {
      Step& step = plan.steps[i];
      step.index = i;
      step.name = i == 0 ? "first" : "second";
      step.initiators = 2;
      step.measure.workload = shape_.workload;
      step.measure.workload.size = 1 << 30;
      step.measure.warmup_intervals = shape_.warmup_intervals;
      step.measure.window_intervals = shape_.window_intervals;
    }
    REQUIRE(writer_->WritePlan(plan).ok());
    for (const std::string& agent : lost) REQUIRE(writer_->WriteAgent({.id = agent}).ok());
    for (const auto& [agent, initiators] : shape_.agents) REQUIRE(writer_->WriteAgent({.id = agent}).ok());
  }

  const PhaseShape& shape() const { return shape_; }
  const std::string& runs() const { return dir_.path(); }
  std::string path() const { return dir_.path() + "/cut/run.db"; }
  RunWriter& writer() { return *writer_; }
  // The controller is gone.
  void Cut() { writer_.reset(); }

  static IntervalDelta Delta(uint32_t initiator, int64_t k) {
    InitiatorDelta delta = Initiator(initiator, {Ops(OpKind::kRead, std::vector<uint64_t>(100, 100'000))});
    delta.offered_integral = 16 * Uint128{kSecond};
    return Interval(k, {delta});
  }

  void CommitInterval(const std::string& agent, int64_t k, uint32_t step = 1) {
    const IntervalDelta delta = Delta(shape_.agents.at(agent).front(), k);
    sent_[agent].push_back(delta);
    v1::ReportMessage report;
    *report.mutable_interval() = ToProto(delta);
    Commit(agent, step, report);
  }
  void CommitIntervals(const std::string& agent, int64_t count, uint32_t step = 1) {
    for (int64_t k = 0; k < count; ++k) CommitInterval(agent, k, step);
  }
  // `lie`: operations counted beside those in the intervals.
  void CommitTotals(const std::string& agent, uint64_t lie = 0) {
    PhaseTotals totals = TotalsOf(sent_[agent]);
    totals.initiators[0].kinds[0].completed += lie;
    totals.initiators[0].kinds[0].submitted += lie;
    v1::ReportMessage report;
    *report.mutable_ended()->mutable_totals() = ToProto(totals);
    Commit(agent, 1, report);
  }

 private:
  void Commit(const std::string& agent, uint32_t step, const v1::ReportMessage& report) {
    RawReport raw;
    raw.agent = agent;
    raw.sequence = ++sequence_[agent];
    raw.key = {.run = "cut", .step = step, .phase = PhaseKind::kMeasure, .attempt = 0};
    raw.bytes = report.SerializeAsString();
    REQUIRE(writer_->CommitReports({raw}).ok());
  }

  TempDir dir_;
  PhaseShape shape_ = Shape({{"local-1", {0}}, {"local-2", {1}}}, 1, 10, 1.0);
  std::unique_ptr<RunWriter> writer_;
  std::map<std::string, uint64_t> sequence_;
  std::map<std::string, std::vector<IntervalDelta>> sent_;
};

}  // namespace muster::test
