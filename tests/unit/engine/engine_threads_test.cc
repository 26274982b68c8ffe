// The engine with real threads and clocks: order, counts, sums and generous bounds only.
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "agent/backend/null_backend.h"
#include "agent/engine/engine.h"
#include "agent/engine/threaded_engine.h"
#include "agent/probe/hiccup.h"
#include "agent/probe/host_facts.h"
#include "common/base/status.h"
#include "common/base/thread.h"

namespace muster {
namespace {

constexpr Nanos kPatience = 60 * kSecond;

class Listener final : public EngineListener {
 public:
  void OnFirstIo(Nanos first_io, Nanos lateness) override {
    std::lock_guard lock(mutex_);
    ++first_ios;
    first = first_io;
    late = lateness;
  }
  void OnInterval(IntervalDelta delta) override {
    std::lock_guard lock(mutex_);
    well_behaved = well_behaved && !ended_;
    deltas.push_back(std::move(delta));
    changed_.notify_all();
  }
  void OnHeld(HeldHistograms h) override {
    std::lock_guard lock(mutex_);
    well_behaved = well_behaved && !ended_;
    held.push_back(std::move(h));
  }
  void OnProgress(uint64_t done, uint64_t total) override {
    std::lock_guard lock(mutex_);
    well_behaved = well_behaved && !ended_ && done >= progress;
    progress = done;
    progress_total = total;
  }
  void OnEnded(PhaseTotals t, absl::Status s) override {
    std::lock_guard lock(mutex_);
    well_behaved = well_behaved && !ended_;
    ended_ = true;
    totals = std::move(t);
    status = std::move(s);
    changed_.notify_all();
  }
  bool AwaitEnd() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::nanoseconds(kPatience), [&] { return ended_; });
  }
  bool AwaitIntervals(size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::nanoseconds(kPatience), [&] { return deltas.size() >= count; });
  }
  // Until an interval ended with so many operations outstanding.
  bool AwaitOutstanding(uint64_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::nanoseconds(kPatience), [&] {
      return !deltas.empty() && !deltas.back().gap && deltas.back().initiators.at(0).outstanding == count;
    });
  }
  size_t Count() {
    std::lock_guard lock(mutex_);
    return deltas.size();
  }

  // Set on the reporter's thread, to be read after AwaitEnd (the test framework takes no checks from other threads).
  bool well_behaved = true;  // intervals and progress in order, nothing after the one end
  int first_ios = 0;
  Nanos first = 0;
  Nanos late = 0;
  std::vector<IntervalDelta> deltas;
  std::vector<HeldHistograms> held;
  uint64_t progress = 0;
  uint64_t progress_total = 0;
  PhaseTotals totals;
  absl::Status status;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
};

// An engine over the null backend with everything it borrows.
struct Rig {
  explicit Rig(uint32_t initiators, Load load, uint32_t window) {
    spec.key = {.run = "r", .step = 0, .phase = PhaseKind::kMeasure, .attempt = 0};
    spec.target = "cal";
    spec.initiator_count = spec.initiator_count_max = initiators;
    for (uint32_t i = 0; i < initiators; ++i) spec.initiators.push_back(i);
    spec.interval = 50 * kMillisecond;
    spec.op_timeout = kSecond;
    spec.objects = {{.slot = 0, .name = "", .size = 1 << 26}};
    work.load = load;
    work.size = 1 << 26;
    this->window = window;
    target.objects = {{.fd = -1, .size = 1 << 26}};
    null.latency = 200 * kMicrosecond;
    options.cpus = {0, 0, 0};  // three workers wherever this runs
  }
  absl::Status Prepare() {
    if (spec.key.phase == PhaseKind::kMeasure) {
      spec.work = MeasureSpec{.workload = work, .warmup_intervals = 1, .window_intervals = window};
    }
    target.target = {.name = "cal", .kind = null};
    auto made = Engine::Prepare(spec, target, options, SteadyClock::Get(), fleet, lease, listener,
                                SteadyClock::Get().Now() + kPatience);
    if (!made.ok()) return made.status();
    engine = *std::move(made);
    return absl::OkStatus();
  }
  void Start() {
    t0 = SteadyClock::Get().Now() + 20 * kMillisecond;
    engine->Start(t0 + fleet.Get().offset);
  }
  // Every sum that must hold, between deltas and the workers' own counters.
  void CheckSums() {
    CHECK(listener.well_behaved);
    REQUIRE(listener.deltas.size() >= 1);
    for (size_t k = 0; k < listener.deltas.size(); ++k) {
      CHECK(listener.deltas[k].interval == static_cast<int64_t>(k));
      CHECK(listener.deltas[k].drain == (k + 1 == listener.deltas.size()));
    }
    CHECK(listener.totals.last_interval == static_cast<int64_t>(listener.deltas.size()) - 2);
    for (const InitiatorTotals& totals : listener.totals.initiators) {
      for (int kind = 0; kind < kOpKinds; ++kind) {
        KindTotals sum;
        for (const IntervalDelta& delta : listener.deltas) {
          for (const InitiatorDelta& initiator : delta.initiators) {
            if (initiator.initiator != totals.initiator) continue;
            for (const KindDelta& d : initiator.kinds) {
              if (static_cast<int>(d.kind) != kind) continue;
              CHECK(Histogram::Decode(d.response)->count() == d.completed);
              sum.completed += d.completed;
              sum.bytes += d.bytes;
              for (const ErrorDelta& error : d.errors) {
                (error.outcome == Outcome::kAborted ? sum.aborted : sum.failed) += error.count;
              }
            }
          }
        }
        const KindTotals& t = totals.kinds[kind];
        CHECK(sum.completed == t.completed);
        CHECK(sum.bytes == t.bytes);
        CHECK(sum.failed == t.failed);
        CHECK(sum.aborted == t.aborted);
        CHECK(t.submitted == t.completed + t.failed + t.aborted + t.abandoned);
      }
    }
  }

  PhaseSpec spec;
  Workload work;
  uint32_t window = 1;
  NullTarget null;
  EngineTarget target;
  EngineOptions options;
  FleetTime fleet;
  LeaseEnd lease{kNever};
  Listener listener;
  std::unique_ptr<Engine> engine;  // last: it borrows the others
  Nanos t0 = 0;
};

std::string CodeOf(const absl::Status& status) {
  return GetErrorInfo(status).code;
}

TEST_CASE("three workers: all sums are exact") {
  Rig rig(2, {.streams = 3, .depth = 4}, 6);
  rig.work.read = 0.7;
  rig.work.flush_every = 5;
  rig.null.error_share = 0.02;
  rig.fleet.Set({.offset = -7 * kSecond, .error = 1000, .taken = SteadyClock::Get().Now()});
  REQUIRE(rig.Prepare().ok());
  const auto facts = rig.engine->Describe();
  CHECK(std::find(facts.begin(), facts.end(), std::pair<std::string, std::string>("workers", "3")) != facts.end());
  CHECK(rig.engine->MemoryBytes() > 0);
  rig.Start();
  REQUIRE(rig.listener.AwaitEnd());
  CHECK(rig.listener.status.ok());
  CHECK(rig.engine->Join(SteadyClock::Get().Now() + kPatience));
  CHECK(rig.engine->ended());
  CHECK(rig.listener.deltas.size() == 8);
  rig.CheckSums();
  CHECK(rig.listener.first_ios == 1);
  CHECK(rig.listener.first >= rig.t0);
  CHECK(rig.listener.late >= 0);
  uint64_t failed = 0;
  for (const InitiatorTotals& totals : rig.listener.totals.initiators) {
    for (const KindTotals& kind : totals.kinds) failed += kind.failed;
    CHECK(totals.kinds[static_cast<int>(OpKind::kRead)].completed > 0);
    CHECK(totals.kinds[static_cast<int>(OpKind::kFlush)].completed > 0);
  }
  CHECK(failed > 0);
  for (const IntervalDelta& delta : rig.listener.deltas) {
    if (delta.drain || delta.gap) continue;
    REQUIRE(delta.initiators.size() == 2);
    CHECK(delta.length >= 50 * kMillisecond);
    for (const InitiatorDelta& initiator : delta.initiators) {
      CHECK(initiator.wire_integral <= initiator.offered_integral);
      CHECK(initiator.offered_integral <= Uint128{12} * static_cast<uint64_t>(delta.length));
    }
  }
}

TEST_CASE("with a small report bound histograms come at the edges of the window, and hold every operation") {
  Rig rig(2, {.streams = 3, .depth = 4}, 4);
  rig.work.read = 0.7;
  rig.options.report_bound = 0;
  REQUIRE(rig.Prepare().ok());
  rig.Start();
  REQUIRE(rig.listener.AwaitEnd());
  CHECK(rig.listener.status.ok());
  CHECK(rig.engine->Join(SteadyClock::Get().Now() + kPatience));
  CHECK(rig.listener.well_behaved);
  std::map<std::pair<uint32_t, OpKind>, uint64_t> counted;
  for (const HeldHistograms& held : rig.listener.held) {
    CHECK((held.drain || held.last_interval < 1 || held.first_interval >= 1));
    REQUIRE(held.kind.has_value());
    const auto histogram = Histogram::Decode(held.kind->response);
    REQUIRE(histogram.ok());
    CHECK(histogram->count() == held.kind->completed);
    counted[{held.initiator, held.kind->kind}] += histogram->count();
  }
  for (const IntervalDelta& delta : rig.listener.deltas) {
    for (const InitiatorDelta& initiator : delta.initiators) {
      for (const KindDelta& kind : initiator.kinds) CHECK(kind.response.counts.empty());
    }
  }
  for (const InitiatorTotals& totals : rig.listener.totals.initiators) {
    for (const OpKind kind : {OpKind::kRead, OpKind::kWrite}) {
      const uint64_t completed = totals.kinds[static_cast<size_t>(kind)].completed;
      CHECK(completed > 0);
      CHECK(counted[{totals.initiator, kind}] == completed);
    }
  }
}

TEST_CASE("open loop on threads: nothing lost, asked rate reached") {
  for (const bool spin : {false, true}) {
    Rig rig(2, {.streams = 2, .depth = 1}, 8);
    rig.work.pacing = Pacing::kPoisson;
    rig.work.rate = 4000;
    rig.options.may_spin = spin;
    REQUIRE(rig.Prepare().ok());
    rig.Start();
    REQUIRE(rig.listener.AwaitEnd());
    CHECK(rig.listener.status.ok());
    rig.CheckSums();
    uint64_t due = 0;
    for (const IntervalDelta& delta : rig.listener.deltas) {
      for (const InitiatorDelta& initiator : delta.initiators) {
        for (const KindDelta& kind : initiator.kinds) {
          if (kind.due_in_window) due += kind.completed;
          CHECK(kind.wait.moments.count == kind.completed);
          CHECK(kind.service.moments.count == kind.completed);
        }
      }
    }
    CHECK(due > 1200);  // 1,600 +- 40
    CHECK(due < 2000);
  }
}

TEST_CASE("abort ends at once, keeping what was measured") {
  Rig rig(1, {.streams = 2, .depth = 4}, 100'000);
  rig.null.hang = true;
  REQUIRE(rig.Prepare().ok());
  rig.Start();
  REQUIRE(rig.listener.AwaitOutstanding(8));
  rig.engine->Abort();
  REQUIRE(rig.listener.AwaitEnd());
  CHECK(rig.listener.status.ok());
  rig.CheckSums();
  CHECK(rig.listener.totals.initiators[0].kinds[0].aborted == 8);
  CHECK_FALSE(rig.listener.totals.poisoned);
}

TEST_CASE("abort before the start ends, too") {
  Rig rig(1, {.streams = 1, .depth = 1}, 5);
  REQUIRE(rig.Prepare().ok());
  rig.engine->Abort();
  REQUIRE(rig.listener.AwaitEnd());
  CHECK(rig.listener.status.ok());
  CHECK(rig.listener.deltas.empty());
  CHECK(rig.listener.totals.last_interval == -1);
  CHECK(rig.engine->Join(SteadyClock::Get().Now() + kPatience));
}

TEST_CASE("an engine that was prepared and never started goes away quietly") {
  Rig rig(1, {.streams = 3, .depth = 1}, 5);
  REQUIRE(rig.Prepare().ok());
  rig.engine.reset();
  CHECK(rig.listener.Count() == 0);
}

TEST_CASE("an engine that is dropped while it runs takes its threads with it") {
  Rig rig(1, {.streams = 3, .depth = 1}, 100'000);
  REQUIRE(rig.Prepare().ok());
  rig.Start();
  REQUIRE(rig.listener.AwaitIntervals(1));
  rig.engine.reset();
  CHECK(rig.listener.AwaitEnd());
}

TEST_CASE("stop after an interval, and the lease") {
  Rig rig(1, {.streams = 3, .depth = 2}, 100'000);
  REQUIRE(rig.Prepare().ok());
  rig.Start();
  REQUIRE(rig.listener.AwaitIntervals(1));
  const int64_t last = static_cast<int64_t>(rig.listener.Count()) + 40;
  rig.engine->StopAfter(last);
  rig.engine->StopAfter(last + 1000);  // never raised again
  REQUIRE(rig.listener.AwaitEnd());
  CHECK(rig.listener.status.ok());
  CHECK(rig.listener.totals.last_interval == last);
  rig.CheckSums();

  Rig leased(1, {.streams = 3, .depth = 2}, 100'000);
  leased.lease = SteadyClock::Get().Now() + 300 * kMillisecond;
  REQUIRE(leased.Prepare().ok());
  leased.Start();
  REQUIRE(leased.listener.AwaitEnd());
  CHECK(CodeOf(leased.listener.status) == "LEASE_ENDED");
  leased.CheckSums();
}

TEST_CASE("operations that never return poison the phase after the drain") {
  Rig rig(1, {.streams = 1, .depth = 3}, 2);
  rig.null.hang = true;
  rig.spec.interval = 500 * kMillisecond;
  rig.spec.op_timeout = 0;  // the drain is then 5 s
  REQUIRE(rig.Prepare().ok());
  rig.Start();
  REQUIRE(rig.listener.AwaitEnd());
  rig.CheckSums();
  CHECK(rig.listener.totals.poisoned);
  CHECK(rig.listener.totals.initiators[0].kinds[0].abandoned == 3);
  REQUIRE(rig.listener.totals.stragglers.size() == 3);
  CHECK_FALSE(rig.listener.totals.stragglers[0].ended);
  CHECK(rig.listener.totals.stragglers[0].final_age >= 5 * kSecond);
}

TEST_CASE("a fill reports progress and ends by itself") {
  Rig rig(1, {}, 1);
  rig.spec.key.phase = PhaseKind::kFill;
  FillSpec fill;
  fill.block = 1 << 16;
  fill.depth = 4;
  fill.passes = 2;
  fill.extents = {{.slot = 0, .offset = 0, .length = 100 << 16}};
  rig.spec.work = fill;
  rig.null.latency = 5 * kMillisecond;
  REQUIRE(rig.Prepare().ok());
  rig.Start();
  REQUIRE(rig.listener.AwaitEnd());
  CHECK(rig.listener.status.ok());
  CHECK(rig.listener.progress == 2 * (100u << 16));
  CHECK(rig.listener.progress_total == 2 * (100u << 16));
  rig.CheckSums();
  CHECK(rig.listener.totals.initiators[0].kinds[static_cast<int>(OpKind::kWrite)].completed == 200);
}

TEST_CASE("a fill that cannot write says where") {
  Rig rig(1, {}, 1);
  rig.spec.key.phase = PhaseKind::kFill;
  FillSpec fill;
  fill.block = 1 << 16;
  fill.extents = {{.slot = 0, .offset = 0, .length = 100 << 16}};
  rig.spec.work = fill;
  rig.null.error_share = 1;
  REQUIRE(rig.Prepare().ok());
  rig.Start();
  REQUIRE(rig.listener.AwaitEnd());
  const ErrorInfo error = GetErrorInfo(rig.listener.status);
  CHECK(error.code == "FILL_WRITE_FAILED");
  CHECK(error.place == "target cal object 0 offset 0");
  CHECK(error.message.find("EIO") != std::string::npos);
  rig.CheckSums();
}

// Blocks in Open or Submit until it is let go.
class HeldBackend final : public Backend {
 public:
  struct Hold {
    std::mutex mutex;
    std::condition_variable changed;
    bool in_open = false;
    bool in_submit = false;
    void Wait() {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return !in_open && !in_submit; });
    }
    void Release() {
      std::lock_guard lock(mutex);
      in_open = in_submit = false;
      changed.notify_all();
    }
  };
  explicit HeldBackend(std::shared_ptr<Hold> hold) : hold_(std::move(hold)), inner_(MakeNullBackend({}, 1)) {}
  absl::Status Open(std::span<const BackendObject> objects, std::span<const BufferRegion> buffers,
                    const BackendLimits& limits, Nanos deadline) override {
    if (hold_->in_open) hold_->Wait();
    return inner_->Open(objects, buffers, limits, deadline);
  }
  BackendDescription Describe() const override { return inner_->Describe(); }
  size_t Submit(std::span<const IoOp> ops, Nanos now) override {
    hold_->Wait();
    return inner_->Submit(ops, now);
  }
  size_t Reap(std::span<IoCompletion> out, Nanos now) override { return inner_->Reap(out, now); }
  void WaitUntil(Nanos deadline) override { inner_->WaitUntil(deadline); }
  int WaitFd() const override { return -1; }
  Nanos NextTimer() const override { return inner_->NextTimer(); }
  void Abort() override { inner_->Abort(); }
  uint32_t outstanding() const override { return inner_->outstanding(); }
  bool Close() override { return inner_->Close(); }

 private:
  std::shared_ptr<Hold> hold_;
  std::unique_ptr<Backend> inner_;
};

TEST_CASE("a backend that does not open within the deadline is named") {
  auto hold = std::make_shared<HeldBackend::Hold>();
  hold->in_open = true;
  Rig rig(1, {.streams = 1, .depth = 1}, 1);
  rig.spec.work = MeasureSpec{.workload = rig.work, .warmup_intervals = 0, .window_intervals = 1};
  rig.target.target = {.name = "cal", .kind = NullTarget{}};
  const auto made = PrepareEngine(rig.spec, rig.target, rig.options, SteadyClock::Get(), rig.fleet, rig.lease,
                                  rig.listener, SteadyClock::Get().Now() + 100 * kMillisecond,
                                  [&](const BackendSeat&) { return std::make_unique<HeldBackend>(hold); });
  CHECK(CodeOf(made.status()) == "PREPARE_TIMEOUT");
  hold->Release();
}

TEST_CASE("a backend that cannot be made is the error of Prepare") {
  Rig rig(1, {.streams = 2, .depth = 1}, 1);
  rig.spec.work = MeasureSpec{.workload = rig.work, .warmup_intervals = 0, .window_intervals = 1};
  rig.target.target = {.name = "cal", .kind = NullTarget{}};
  const auto made = PrepareEngine(rig.spec, rig.target, rig.options, SteadyClock::Get(), rig.fleet, rig.lease,
                                  rig.listener, SteadyClock::Get().Now() + kPatience,
                                  [&](const BackendSeat& seat) -> absl::StatusOr<std::unique_ptr<Backend>> {
                                    if (seat.worker == 0) return MakeNullBackend({}, 1);
                                    return MakeError(absl::StatusCode::kInvalidArgument,
                                                     {.code = "NO_SEAT", .place = {}, .message = "none", .next = {}});
                                  });
  CHECK(CodeOf(made.status()) == "NO_SEAT");
}

TEST_CASE("a worker held in a system call does not keep the phase from ending") {
  auto hold = std::make_shared<HeldBackend::Hold>();
  hold->in_submit = true;
  Rig rig(1, {.streams = 2, .depth = 1}, 1);
  rig.spec.op_timeout = 0;
  rig.spec.work = MeasureSpec{.workload = rig.work, .warmup_intervals = 0, .window_intervals = 2};
  rig.target.target = {.name = "cal", .kind = NullTarget{}};
  auto made = PrepareEngine(rig.spec, rig.target, rig.options, SteadyClock::Get(), rig.fleet, rig.lease, rig.listener,
                            SteadyClock::Get().Now() + kPatience, [&](const BackendSeat& seat) {
                              return seat.worker == 0 ? std::unique_ptr<Backend>(new HeldBackend(hold))
                                                      : MakeNullBackend(NullTarget{.latency = kMillisecond}, 1);
                            });
  REQUIRE(made.ok());
  rig.engine = *std::move(made);
  rig.Start();
  REQUIRE(rig.listener.AwaitEnd());
  CHECK(CodeOf(rig.listener.status) == "WORKER_STUCK");
  CHECK(rig.listener.totals.poisoned);
  CHECK_FALSE(rig.engine->Join(SteadyClock::Get().Now() + 10 * kMillisecond));
  CHECK(rig.listener.deltas.size() == 1);  // no interval that every worker closed
  CHECK(rig.listener.deltas[0].drain);
  rig.CheckSums();
  hold->Release();
  CHECK(rig.engine->Join(SteadyClock::Get().Now() + kPatience));
}

TEST_CASE("the hiccup meter expands a stop into one sample a millisecond") {
  Histogram histogram;
  RecordHiccup(histogram, 5 * kMillisecond + 300);
  CHECK(histogram.count() == 5);
  CHECK(histogram.moments().max == 5 * kMillisecond + 300);
  CHECK(histogram.moments().min == kMillisecond + 300);
  RecordHiccup(histogram, -5);
  CHECK(histogram.moments().min == 0);
  histogram.Clear();
  RecordHiccup(histogram, 200 * kMillisecond);
  CHECK(histogram.count() == 200);
}

TEST_CASE("the hiccup meter runs and hands over") {
  const auto meter = HiccupMeter::Start(SteadyClock::Get());
  Histogram seen;
  const Nanos deadline = SteadyClock::Get().Now() + kPatience;
  while (seen.count() < 20 && SteadyClock::Get().Now() < deadline) {
    REQUIRE(seen.Merge(meter->Take()).ok());
    std::this_thread::yield();
  }
  CHECK(seen.count() >= 20);
}

TEST_CASE("host facts are there") {
  const HostFacts facts = ReadHostFacts();
  CHECK_FALSE(facts.host_id.empty());
  CHECK(facts.boot_id.size() == 36);
  CHECK_FALSE(facts.kernel.empty());
  CHECK_FALSE(facts.cpu_model.empty());
  CHECK(facts.allowed_cpus == AllowedCpus());
}

TEST_CASE("fleet time is of one probe, and its bound widens") {
  FleetTime fleet;
  fleet.Set({.offset = 5, .error = 1000, .taken = kSecond});
  CHECK(fleet.ErrorAt(kSecond) == 1000);
  CHECK(fleet.ErrorAt(11 * kSecond) == 1000 + kMillisecond);
  CHECK(fleet.ErrorAt(0) == 1000);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (Nanos i = 1; !stop; ++i) fleet.Set({.offset = i, .error = 2 * i, .taken = 3 * i});
  });
  bool torn = false;
  for (int i = 0; i < 20'000; ++i) {
    const FleetTime::Estimate e = fleet.Get();
    torn = torn || !(e.offset == 5 || (e.error == 2 * e.offset && e.taken == 3 * e.offset));
  }
  stop = true;
  writer.join();
  CHECK_FALSE(torn);
}

}  // namespace
}  // namespace muster
