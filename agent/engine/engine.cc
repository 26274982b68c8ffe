#include "agent/engine/engine.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "agent/backend/iscsi/iscsi_backend.h"
#include "agent/backend/iscsi/spec_of.h"
#include "agent/backend/null_backend.h"
#include "agent/backend/uring_backend.h"
#include "agent/engine/backend_facts.h"
#include "agent/engine/reporter.h"
#include "agent/engine/threaded_engine.h"
#include "agent/engine/worker_plan.h"
#include "agent/engine/worker_thread.h"
#include "common/base/status.h"
#include "common/base/thread.h"
#include "fmt/format.h"

namespace muster {
namespace {

constexpr Nanos kLastWait = kSecond;  // of the destructor, for threads that only have to notice the end

uint64_t HashText(std::string_view text) {  // FNV-1a
  uint64_t hash = 0xCBF29CE484222325ull;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3ull;
  return hash;
}

// Content differs in every phase of every run: a target that deduplicates must not know it already.
uint64_t ContentSeed(const PhaseSpec& spec, uint64_t seed) {
  return MixSeed(seed ^ HashText(spec.key.run), static_cast<uint64_t>(SeedPurpose::kContent),
                 (static_cast<uint64_t>(spec.key.step) << 32) | spec.key.attempt,
                 static_cast<uint64_t>(spec.key.phase));
}

LoopConfig MakeConfig(const PhaseSpec& spec) {
  LoopConfig config{.interval = spec.interval, .op_timeout = spec.op_timeout};
  if (const auto* fill = std::get_if<FillSpec>(&spec.work)) {
    config.fill = *fill;
    config.content_seed = ContentSeed(spec, fill->seed);
    // Agents share a fill: their parts begin at different places, and no block may be like one of another agent's.
    if (!fill->extents.empty()) {
      config.content_seed = MixSeed(config.content_seed, fill->extents.front().slot, fill->extents.front().offset);
    }
  } else {
    const auto& measure = std::get<MeasureSpec>(spec.work);
    config.work = measure.workload;
    config.warmup = measure.warmup_intervals;
    config.content_seed = ContentSeed(spec, measure.workload.seed);
  }
  return config;
}

bool Writes(const PhaseSpec& spec) {
  const auto* measure = std::get_if<MeasureSpec>(&spec.work);
  if (measure == nullptr) return true;
  const Workload& w = measure->workload;
  return w.trim > 0 || w.read < 1 || w.flush_every > 0;
}

class ThreadedEngine final : public Engine {
 public:
  ThreadedEngine(const PhaseSpec& spec, std::shared_ptr<EngineShared> shared)
      : spec_(spec), shared_(std::move(shared)) {}

  ~ThreadedEngine() override {
    if (shared_->gate.state() == StartGate::State::kOpen) {
      shared_->control.abort.store(true);
    } else {
      shared_->gate.Cancel();  // never started: nobody is told of an end
    }
    if (!Join(shared_->clock->Now() + kLastWait)) {
      // What is left sits in a system call, or in a drain nobody waits for any more: it must not touch what the
      // engine borrowed.
      shared_->control.orphaned.store(true);
      Join(shared_->clock->Now() + kLastWait);
    }
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.detach();  // keeps its own share of `shared_`
    }
    if (reporter_thread_.joinable()) reporter_thread_.join();
  }
  ThreadedEngine(const ThreadedEngine&) = delete;
  ThreadedEngine& operator=(const ThreadedEngine&) = delete;

  absl::Status Open(EngineListener& listener, Nanos deadline) {
    for (uint32_t i = 0; i < shared_->workers.size(); ++i) {
      threads_.emplace_back([shared = shared_, i, deadline] { RunWorker(shared, i, deadline); });
    }
    {
      std::unique_lock lock(shared_->mutex);
      const auto all_open = [&] {
        return std::all_of(shared_->opened.begin(), shared_->opened.end(), [](const auto& s) { return s.has_value(); });
      };
      while (!all_open() && shared_->clock->Now() < deadline) {
        shared_->changed.wait_for(lock, std::chrono::nanoseconds(deadline - shared_->clock->Now()));
      }
      for (size_t i = 0; i < shared_->opened.size(); ++i) {
        if (!shared_->opened[i].has_value()) {
          return MakeError(absl::StatusCode::kDeadlineExceeded,
                           {"PREPARE_TIMEOUT", fmt::format("target {} worker {}", spec_.target, i),
                            "its backend did not open within the deadline", "Check the target."});
        }
        if (!shared_->opened[i]->ok()) return AtPlace(*shared_->opened[i], fmt::format("target {}", spec_.target));
      }
    }
    reporter_ = std::make_unique<Reporter>(shared_, spec_, listener, HiccupMeter::Start(*shared_->clock));
    reporter_thread_ = std::thread([this] {
      reporter_->Run();
      ended_.store(true, std::memory_order_release);
      { std::lock_guard lock(shared_->mutex); }
      shared_->changed.notify_all();
    });
    return absl::OkStatus();
  }

  std::vector<std::pair<std::string, std::string>> Describe() const override {
    std::vector<std::pair<std::string, std::string>> result = {
        {"workers", fmt::format("{}", shared_->workers.size())},
        {"streams of workers", DescribeMapping(Plans())},
        {"pinned", shared_->options.pin ? "yes" : "no"},
        {"pacing", shared_->options.may_spin ? "spin" : "sleep"},
    };
    std::string slots;
    for (const auto& worker : shared_->workers) {
      slots += fmt::format("{}{}", slots.empty() ? "" : ", ", worker->plan.slots);
    }
    result.emplace_back("depth of workers", slots);
    DescribeBackends(result);
    return result;
  }

  uint64_t MemoryBytes() const override {
    uint64_t bytes = BufferBytes(Plans(), shared_->target);
    for (const auto& worker : shared_->workers) bytes += worker->recorder->Bytes();
    return bytes;
  }

  void Start(Nanos t0_fleet) override { shared_->gate.Open(t0_fleet); }

  void StopAfter(int64_t interval) override {
    int64_t last = shared_->control.stop_after.load();
    while (last > interval && !shared_->control.stop_after.compare_exchange_weak(last, interval)) {
    }
  }

  void Abort() override {
    shared_->control.abort.store(true);
    shared_->gate.Cancel();
  }

  bool ended() const override { return ended_.load(std::memory_order_acquire); }

  bool Join(Nanos deadline) override {
    {
      std::unique_lock lock(shared_->mutex);
      const auto all_done = [&] {
        return std::all_of(shared_->exited.begin(), shared_->exited.end(), [](bool exited) { return exited; }) &&
               (!reporter_thread_.joinable() || ended());
      };
      while (!all_done()) {
        const Nanos left = deadline - shared_->clock->Now();
        if (left <= 0) break;
        shared_->changed.wait_for(lock, std::chrono::nanoseconds(left));
      }
      if (!all_done()) return false;
    }
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
    if (reporter_thread_.joinable()) reporter_thread_.join();
    return true;
  }

 private:
  // One fact a parameter, however many backends there are: what all have alike once, the rest with whose it is.
  void DescribeBackends(std::vector<std::pair<std::string, std::string>>& result) const {
    std::vector<BackendFacts> all;
    for (const auto& worker : shared_->workers) {
      for (size_t i = 0; i < worker->descriptions.size(); ++i) {
        const LanePlan& lane = worker->plan.lanes[i];
        all.push_back({worker->plan.connections ? fmt::format("{}.{}", lane.initiator, lane.connection)
                                                : fmt::format("worker {}", worker->index),
                       worker->descriptions[i].parameters});
        all.back().parameters.insert(all.back().parameters.begin(),
                                     {"max outstanding", fmt::format("{}", worker->descriptions[i].max_outstanding)});
      }
    }
    for (auto& fact : FoldFacts(all)) result.push_back(std::move(fact));
  }
  std::vector<WorkerPlan> Plans() const {
    std::vector<WorkerPlan> plans;
    for (const auto& worker : shared_->workers) plans.push_back(worker->plan);
    return plans;
  }

  const PhaseSpec spec_;
  const std::shared_ptr<EngineShared> shared_;
  std::vector<std::thread> threads_;
  std::unique_ptr<Reporter> reporter_;
  std::thread reporter_thread_;
  std::atomic<bool> ended_{false};
};

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> PrepareEngine(const PhaseSpec& spec, const EngineTarget& target,
                                                      const EngineOptions& options, const Clock& clock,
                                                      const FleetTime& fleet, const LeaseEnd& lease,
                                                      EngineListener& listener, Nanos deadline,
                                                      BackendFactory make_backend) {
  auto shared = std::make_shared<EngineShared>();
  shared->config = MakeConfig(spec);
  shared->target = target;
  shared->options = options;
  if (shared->options.cpus.empty()) shared->options.cpus = AllowedCpus();
  shared->clock = &clock;
  shared->fleet = &fleet;
  shared->lease = &lease;
  shared->make_backend = std::move(make_backend);
  if (const auto* measure = std::get_if<MeasureSpec>(&spec.work)) {
    shared->control.stop_after = static_cast<int64_t>(measure->warmup_intervals) + measure->window_intervals - 1;
  }

  auto threads = static_cast<uint32_t>(shared->options.cpus.size());
  if (options.max_workers != 0) threads = std::min(threads, options.max_workers);
  MUSTER_ASSIGN_OR_RETURN(std::vector<WorkerPlan> plans, PlanWorkers(spec, target, threads));
  MUSTER_RETURN_IF_ERROR(CheckBufferMemory(BufferBytes(plans, target), options.max_buffer_memory));
  std::vector<RecorderShape> shapes;
  shapes.reserve(plans.size());
  for (const WorkerPlan& plan : plans) shapes.push_back(plan.shape);
  MUSTER_ASSIGN_OR_RETURN(const std::vector<size_t> pages, BudgetPages(shapes));
  const bool touches_buffers = !std::holds_alternative<NullTarget>(target.target.kind);
  for (uint32_t i = 0; i < plans.size(); ++i) {
    auto worker = std::make_unique<WorkerState>();
    worker->index = i;
    MUSTER_ASSIGN_OR_RETURN(worker->buffers,
                            BufferPool::Allocate(plans[i].slots, plans[i].slot_bytes, touches_buffers));
    worker->recorder = std::make_unique<IntervalRecorder>(shapes[i], pages[i]);
    worker->plan = std::move(plans[i]);
    shared->workers.push_back(std::move(worker));
  }
  shared->opened.resize(shared->workers.size());
  shared->exited.resize(shared->workers.size());
  auto engine = std::make_unique<ThreadedEngine>(spec, shared);
  MUSTER_RETURN_IF_ERROR(engine->Open(listener, deadline));
  return engine;
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Prepare(const PhaseSpec& spec, const EngineTarget& target,
                                                        const EngineOptions& options, const Clock& clock,
                                                        const FleetTime& fleet, const LeaseEnd& lease,
                                                        EngineListener& listener, Nanos deadline) {
  const auto* measures = std::get_if<MeasureSpec>(&spec.work);
  const uint64_t seed = measures != nullptr ? measures->workload.seed : 1;
  const uint32_t first_initiator = spec.initiators.empty() ? 0 : spec.initiators.front();
  BackendFactory factory = [kind = target.target.kind, seed, first_initiator, fills = !measures, writes = Writes(spec)](
                               const BackendSeat& seat) -> absl::StatusOr<std::unique_ptr<Backend>> {
    if (const auto* null = std::get_if<NullTarget>(&kind)) {
      return MakeNullBackend(*null, StreamSeed(seed, SeedPurpose::kBackend, first_initiator, seat.worker));
    }
    if (const auto* iscsi = std::get_if<IscsiTarget>(&kind)) {
      // Agents may fill one LUN together, as its first initiator: sessions of one name need unlike qualifiers.
      const uint16_t qualifier = fills ? ExtraQualifier() : static_cast<uint16_t>(seat.lane.connection);
      MUSTER_ASSIGN_OR_RETURN(IscsiConnectionSpec connection,
                              SpecOf(*iscsi, seat.lane.initiator, seat.lane.object, qualifier));
      connection.writes = writes;
      return MakeIscsiBackend(std::move(connection));
    }
    return MakeUringBackend();
  };
  EngineTarget with_connections = target;
  if (const auto* iscsi = std::get_if<IscsiTarget>(&target.target.kind)) {
    with_connections.connections = iscsi->connections;
    if (iscsi->iser) with_connections.connection_bytes = kIserConnectionBytes;
  }
  return PrepareEngine(spec, with_connections, options, clock, fleet, lease, listener, deadline, std::move(factory));
}

}  // namespace muster
