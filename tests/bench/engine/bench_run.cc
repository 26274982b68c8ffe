#include "tests/bench/engine/bench_run.h"

#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <mutex>

#include "common/base/status.h"
#include "fmt/format.h"

namespace muster::bench {
namespace {

[[noreturn]] void Fail(const absl::Status& status) {
  fmt::print(stderr, "{}\n", FormatError(status));
  std::exit(3);
}

void Must(const absl::Status& status) {
  if (!status.ok()) Fail(status);
}

class Collector final : public EngineListener {
 public:
  explicit Collector(int64_t warmup) : warmup_(warmup) {}
  void OnFirstIo(Nanos, Nanos) override {}
  void OnProgress(uint64_t, uint64_t) override {}
  void OnInterval(IntervalDelta delta) override {
    if (delta.gap) Fail(MakeError(absl::StatusCode::kAborted, {"GAP", "bench", "this process was stopped", ""}));
    const bool window = !delta.drain && delta.interval >= warmup_;
    if (window) {
      figures_.seconds += static_cast<double>(delta.length) / 1e9;
      figures_.cpu_seconds += static_cast<double>(delta.cpu_nanos) / 1e9;
      figures_.stamp_error = std::max(figures_.stamp_error, delta.stamp_error);
    }
    for (const InitiatorDelta& initiator : delta.initiators) {
      if (window && !initiator.held) Must(figures_.lateness.Merge(initiator.lateness));
      for (const KindDelta& kind : initiator.kinds) {
        if (window) {
          figures_.operations += kind.completed;
          if (!initiator.held) Must(figures_.response.Merge(kind.response));
        }
        for (const ErrorDelta& error : kind.errors) figures_.failed += error.count;
      }
    }
  }
  void OnHeld(HeldHistograms held) override {
    if (held.drain || held.first_interval < warmup_) return;
    Must(figures_.lateness.Merge(held.lateness));
    if (held.kind.has_value()) Must(figures_.response.Merge(held.kind->response));
  }
  void OnEnded(PhaseTotals, absl::Status status) override {
    std::lock_guard lock(mutex_);
    ended_ = true;
    status_ = std::move(status);
    changed_.notify_all();
  }
  RunFigures Await() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_; });
    Must(status_);
    return std::move(figures_);
  }

 private:
  const int64_t warmup_;
  RunFigures figures_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  absl::Status status_;
};

}  // namespace

RunFigures RunEngine(const Workload& workload, const EngineTarget& target, const EngineOptions& options,
                     double seconds) {
  PhaseSpec spec;
  spec.key = {.run = "bench", .step = 0, .phase = PhaseKind::kMeasure, .attempt = 0};
  spec.target = "bench";
  spec.initiators = {0};
  spec.initiator_count = spec.initiator_count_max = 1;
  spec.objects = {{.slot = 0, .name = "", .size = workload.size}};
  spec.work = MeasureSpec{
      .workload = workload, .warmup_intervals = 1, .window_intervals = static_cast<uint32_t>(std::ceil(seconds))};
  const FleetTime fleet;
  const LeaseEnd lease{kNever};
  Collector collector(1);
  const Clock& clock = SteadyClock::Get();
  auto engine = Engine::Prepare(spec, target, options, clock, fleet, lease, collector, clock.Now() + kMinute);
  if (!engine.ok()) Fail(engine.status());
  (*engine)->Start(clock.Now() + 50 * kMillisecond);
  RunFigures figures = collector.Await();
  (*engine)->Join(clock.Now() + kMinute);
  return figures;
}

}  // namespace muster::bench
