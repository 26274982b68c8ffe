#pragma once
#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "agent/engine/interval_collector.h"
#include "agent/engine/worker_loop.h"

namespace muster {

// A backend on a fake clock. What it does with each operation is scripted; what it saw is kept.
class ScriptedBackend final : public Backend {
 public:
  explicit ScriptedBackend(FakeClock& clock) : clock_(clock) {}

  struct Seen {
    IoOp op;
    Nanos submitted = 0;
    Nanos done = kNever;  // when the Reap that returned it came back
  };

  // Latency of the n-th operation accepted; kNever: it never ends.
  std::function<Nanos(const IoOp&, size_t n)> latency = [](const IoOp&, size_t) { return 100 * kMicrosecond; };
  std::function<IoOutcome(const IoOp&, size_t n)> outcome = [](const IoOp&, size_t) { return IoOutcome::kOk; };
  size_t limit = SIZE_MAX;  // accepted and not reaped
  uint32_t batch = 0;       // submit_batch of its description; read when the loop is made
  Nanos submit_cost = 0;    // the clock moves on by it inside Submit
  Nanos reap_cost = 0;      // ... inside a Reap that returns something
  bool abort_ends = true;
  std::vector<Seen> seen;
  size_t submits = 0;
  Nanos last_submit = 0;

  absl::Status Open(std::span<const BackendObject>, std::span<const BufferRegion>, const BackendLimits&,
                    Nanos) override {
    return absl::OkStatus();
  }
  BackendDescription Describe() const override {
    BackendDescription d;
    d.submit_batch = batch;
    return d;
  }
  size_t Submit(std::span<const IoOp> ops, Nanos now) override {
    ++submits;
    last_submit = now;
    size_t accepted = 0;
    for (; accepted < ops.size() && open_.size() < limit; ++accepted) {
      const size_t n = seen.size();
      const Nanos late = latency(ops[accepted], n);
      open_.insert({late == kNever ? kNever : now + late, n});
      seen.push_back({ops[accepted], now});
    }
    clock_.Advance(submit_cost);
    return accepted;
  }
  size_t Reap(std::span<IoCompletion> out, Nanos now) override {
    size_t n = 0;
    while (n < out.size() && !open_.empty() && open_.begin()->first <= now) {
      const size_t index = open_.begin()->second;
      open_.erase(open_.begin());
      const IoOutcome result = aborted_.contains(index) ? IoOutcome::kAborted : outcome(seen[index].op, index);
      out[n++] = {.tag = seen[index].op.tag,
                  .outcome = result,
                  .native_code = result == IoOutcome::kOk ? 0 : 5,
                  .bytes = seen[index].op.bytes};
      returned_.push_back(index);
    }
    if (n > 0) clock_.Advance(reap_cost);
    for (const size_t index : returned_) seen[index].done = clock_.Now();
    returned_.clear();
    return n;
  }
  void WaitUntil(Nanos) override {}
  int WaitFd() const override { return -1; }
  Nanos NextTimer() const override { return open_.empty() ? kNever : open_.begin()->first; }
  void Abort() override {
    if (!abort_ends) return;
    std::multiset<std::pair<Nanos, size_t>> ended;
    for (const auto& [due, index] : open_) {
      ended.insert({0, index});
      aborted_.insert(index);
    }
    open_ = std::move(ended);
  }
  uint32_t outstanding() const override { return static_cast<uint32_t>(open_.size()); }
  bool Close() override { return open_.empty(); }

 private:
  FakeClock& clock_;
  std::multiset<std::pair<Nanos, size_t>> open_;  // due, index
  std::set<size_t> aborted_;
  std::vector<size_t> returned_;
};

// One worker loop on a fake clock, with everything around it.
class LoopRig {
 public:
  static constexpr Nanos kStart = 1000 * kSecond;

  static Workload Closed(uint32_t streams, uint32_t depth) {
    Workload work;
    work.load = {.streams = streams, .depth = depth};
    work.size = 1 << 30;
    return work;
  }
  static Workload Open(Pacing pacing, double rate, uint32_t streams = 1) {
    Workload work = Closed(streams, 1);
    work.pacing = pacing;
    work.rate = rate;
    return work;
  }

  explicit LoopRig(const Workload& work, uint32_t window = 3, uint32_t warmup = 0, uint32_t initiators = 1,
                   uint32_t batch = 0, uint32_t connections = 0)
      : connections(connections), clock(kStart), backend(clock) {
    backend.batch = batch;
    spec.initiator_count = spec.initiator_count_max = initiators;
    for (uint32_t i = 0; i < initiators; ++i) spec.initiators.push_back(i);
    spec.op_timeout = 10 * kSecond;
    spec.work = MeasureSpec{.workload = work, .warmup_intervals = warmup, .window_intervals = window};
    control.stop_after = warmup + window - 1;
    config.warmup = warmup;
    config.work = work;
    SetUp(work.size);
  }
  explicit LoopRig(const FillSpec& fill) : clock(kStart), backend(clock) {
    spec.op_timeout = 10 * kSecond;
    spec.work = fill;
    config.fill = fill;
    SetUp(1 << 30);
  }

  // Begins interval 0 at `late` past its start.
  void Begin(Nanos late = 0) {
    clock.Set(kStart + late);
    loop->Begin(kStart);
  }
  // One iteration; then the clock moves on to what the loop waits for.
  void Step() {
    const WorkerLoop::Next next = loop->Step();
    if (pull) Pull();
    if (loop->finished()) return;
    if (next.wait_until > clock.Now()) {
      clock.Set(next.wait_until);
      if (!next.starved) loop->Woke();
    }
  }
  void RunUntil(Nanos instant) {
    while (!loop->finished() && clock.Now() < instant) Step();
  }
  void Run() {
    RunUntil(kStart + 1000 * kSecond);
    drain = *collector->Finish();
  }
  void Pull() {
    while (IntervalSet* set = recorder->TakeFull()) {
      status.Update(collector->Add(0, *set));
      recorder->GiveBack(set);
    }
    while (auto delta = collector->Next()) deltas.push_back(*std::move(delta));
  }

  static Histogram Of(const EncodedHistogram& encoded) { return *Histogram::Decode(encoded); }
  // The delta of (initiator, kind, cohort), empty if there is none.
  static KindDelta Kind(const IntervalDelta& delta, uint32_t initiator = 0, OpKind kind = OpKind::kRead,
                        bool in_window = false) {
    for (const KindDelta& k : delta.initiators.at(initiator).kinds) {
      if (k.kind == kind && k.due_in_window == in_window) return k;
    }
    return {};
  }
  // All deltas of a phase, drain included.
  std::vector<IntervalDelta> All() const {
    std::vector<IntervalDelta> all = deltas;
    all.push_back(drain);
    return all;
  }
  KindTotals Totals(uint32_t initiator = 0, OpKind kind = OpKind::kRead) const {
    return collector->Totals({false}).at(initiator).kinds[static_cast<int>(kind)];
  }

  uint32_t connections = 0;
  FakeClock clock;
  FleetTime fleet;
  LeaseEnd lease{kNever};
  LoopControl control;
  PhaseSpec spec;
  LoopConfig config;
  ScriptedBackend backend;                             // of the first lane
  std::vector<std::unique_ptr<ScriptedBackend>> more;  // of the others
  std::vector<Backend*> backends;
  WorkerPlan plan;
  std::unique_ptr<BufferPool> buffers;
  std::unique_ptr<IntervalRecorder> recorder;
  std::unique_ptr<IntervalCollector> collector;
  std::unique_ptr<WorkerLoop> loop;
  std::vector<IntervalDelta> deltas;
  IntervalDelta drain;
  absl::Status status;
  bool pull = true;  // false: a reporter that does not get to work

 private:
  void SetUp(uint64_t size) {
    spec.objects = {{.slot = 0, .name = "", .size = size}};
    config.op_timeout = spec.op_timeout;
    EngineTarget target{.target = {.name = "t", .kind = NullTarget{}},
                        .objects = {{.fd = -1, .size = size}},
                        .connections = connections};
    plan = PlanWorkers(spec, target, 1)->front();
    backends.push_back(&backend);
    while (backends.size() < plan.lanes.size()) {
      more.push_back(std::make_unique<ScriptedBackend>(clock));
      backends.push_back(more.back().get());
    }
    buffers = *BufferPool::Allocate(plan.slots, plan.slot_bytes, false);
    recorder = std::make_unique<IntervalRecorder>(plan.shape, PagesFor(plan.shape).wanted);
    std::vector<uint32_t> slots;
    for (const GroupPlan& group : plan.groups) slots.push_back(group.initiator);
    collector = std::make_unique<IntervalCollector>(std::vector<std::vector<uint32_t>>{slots},
                                                    std::vector<RecorderShape>{plan.shape});
    loop = std::make_unique<WorkerLoop>(config, plan, 0, backends, *buffers, *recorder, clock, fleet, lease, control,
                                        [] {});
  }
};

}  // namespace muster
