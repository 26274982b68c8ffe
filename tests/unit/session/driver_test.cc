// The driver's threads with a played link, target and engine.
#include "agent/session/driver.h"

#include <catch2/catch.hpp>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "common/base/status.h"

namespace muster::agent {
namespace {

constexpr auto kPatience = std::chrono::seconds(20);

// Opened once; everybody waiting goes on. Waits are bounded.
class Latch {
 public:
  void Open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  bool Wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

// The same message with a status of its own: the count of shared ones lives in a library that TSan does not see.
AgentSays Apart(const AgentSays& message) {
  return std::visit(
      [](const auto& m) -> AgentSays {
        auto copy = m;
        if constexpr (requires { copy.status; }) {
          copy.status = m.status.ok() ? absl::OkStatus() : MakeError(m.status.code(), GetErrorInfo(m.status));
        }
        if constexpr (requires { copy.why; }) copy.why = MakeError(m.why.code(), GetErrorInfo(m.why));
        return copy;
      },
      message);
}

class FakeLink final : public ControllerLink {
 public:
  void Dial(uint64_t link, const Hello&) override {
    std::lock_guard lock(mutex_);
    link_ = link;
    ++dials_;
    changed_.notify_all();
  }
  void OpenReports(uint64_t) override {}
  bool Say(uint64_t, const AgentSays& message) override {
    std::lock_guard lock(mutex_);
    if (const auto* beat = std::get_if<Beat>(&message)) {
      const Nanos now = SteadyClock::Get().Now();
      listener->OnMessage(link_, 0, BeatReply{.seq = beat->seq, .t1 = beat->t1, .t2 = now, .t3 = now},
                          SteadyClock::Get().Now());
    } else {
      said_.push_back(Apart(message));
    }
    changed_.notify_all();
    return true;
  }
  bool Report(std::shared_ptr<const muster::agent::Report> report) override {
    if (hold_reports != nullptr) hold_reports->Wait();
    std::lock_guard lock(mutex_);
    listener->OnAck(link_, report->sequence, {});
    reports_.push_back(std::move(report));
    changed_.notify_all();
    return true;
  }
  void Close() override {}

  void Tell(ControllerSays message) {
    uint64_t link = 0;
    uint64_t seq = 0;
    {
      std::lock_guard lock(mutex_);
      link = link_;
      if (std::holds_alternative<HelloReply>(message)) commands_ = 0;
      const bool numbered = !std::holds_alternative<HelloReply>(message) &&
                            !std::holds_alternative<BeatReply>(message) && !std::holds_alternative<Goodbye>(message);
      if (numbered) seq = ++commands_;
    }
    listener->OnMessage(link, seq, std::move(message), SteadyClock::Get().Now());
  }
  bool WaitDials(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return dials_ >= count; });
  }
  template <typename T>
  T Next() {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, kPatience, [this] { return !said_.empty(); }));
    AgentSays message = std::move(said_.front());
    said_.pop_front();
    REQUIRE(std::holds_alternative<T>(message));
    return std::get<T>(message);
  }
  std::shared_ptr<const muster::agent::Report> NextReport() {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, kPatience, [this] { return !reports_.empty(); }));
    auto report = std::move(reports_.front());
    reports_.pop_front();
    return report;
  }
  LinkListener* listener = nullptr;
  Latch* hold_reports = nullptr;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t commands_ = 0;
  uint64_t link_ = 0;
  int dials_ = 0;
  std::deque<AgentSays> said_;
  std::deque<std::shared_ptr<const muster::agent::Report>> reports_;
};

class FakeTarget final : public AttachedTarget {
 public:
  explicit FakeTarget(std::atomic<int>& detached) : detached_(detached) {}
  const std::vector<BackendObject>& objects() const override { return objects_; }
  uint64_t generation() const override { return 3; }
  std::vector<std::pair<std::string, std::string>> Evidence() const override { return {{"guard", "blank"}}; }
  absl::Status Detach() override {
    ++detached_;
    return absl::OkStatus();
  }

 private:
  std::atomic<int>& detached_;
  std::vector<BackendObject> objects_;
};

// Emits `intervals` deltas as fast as it can once started, then ends; Abort ends it too.
class FakeEngine final : public Engine {
 public:
  FakeEngine(EngineListener& listener, int intervals) : listener_(listener), intervals_(intervals) {}
  ~FakeEngine() override {
    if (thread_.joinable()) thread_.join();
  }
  std::vector<std::pair<std::string, std::string>> Describe() const override { return {{"workers", "1"}}; }
  uint64_t MemoryBytes() const override { return 123; }
  void Start(Nanos) override {
    thread_ = std::thread([this] {
      listener_.OnFirstIo(SteadyClock::Get().Now(), 0);
      for (int k = 0; k < intervals_; ++k) listener_.OnInterval({.interval = k});
      emitted.Open();
      listener_.OnEnded({.last_interval = intervals_ - 1}, absl::OkStatus());
      ended_ = true;
    });
  }
  void StopAfter(int64_t) override {}
  void Abort() override {
    if (!thread_.joinable()) listener_.OnEnded({}, absl::OkStatus());
  }
  bool ended() const override { return ended_; }
  bool Join(Nanos) override {
    if (thread_.joinable()) thread_.join();
    return true;
  }
  Latch emitted;

 private:
  EngineListener& listener_;
  const int intervals_;
  std::thread thread_;
  std::atomic<bool> ended_{false};
};

struct Bench {
  std::atomic<int> detached{0};
  int intervals = 5;
  Latch* hold_attach = nullptr;
  FakeEngine* engine = nullptr;
  FakeLink link;
  DriverOptions options;
  std::unique_ptr<SessionDriver> driver;
  std::thread thread;
  SessionDriver::Result result;

  void Run() {
    options.session.hello = {.api_min = 1, .api_max = 1, .agent_id = "a1"};
    DriverSeams seams;
    seams.attach = [this](const AttachRequest&, const AllowList&) -> absl::StatusOr<std::unique_ptr<AttachedTarget>> {
      if (hold_attach != nullptr) hold_attach->Wait();
      return std::make_unique<FakeTarget>(detached);
    };
    seams.inspect = [](const Target& target, const std::vector<ObjectSpec>&, bool, const AllowList&) {
      return TargetInspection{.target = target.name, .found = "nothing"};
    };
    seams.probe = [](const Target& target, const std::vector<ObjectSpec>&, bool, const AllowList&) {
      return TargetInspection{.target = target.name, .found = "all there is"};
    };
    seams.prepare = [this](const PhaseSpec&, const EngineTarget&, const EngineOptions&, const Clock&, const FleetTime&,
                           const LeaseEnd&, EngineListener& listener,
                           Nanos) -> absl::StatusOr<std::unique_ptr<Engine>> {
      auto made = std::make_unique<FakeEngine>(listener, intervals);
      engine = made.get();
      return made;
    };
    driver = SessionDriver::Create(options, SteadyClock::Get(), seams);
    link.listener = &driver->link_listener();
    thread = std::thread([this] { result = driver->Run(link); });
    REQUIRE(link.WaitDials(1));
    link.Tell(HelloReply{.error = {}, .api = 1, .build = "c", .controller_epoch = 1, .link_id = 2, .lease = kMinute});
  }
  static PhaseKey Key(PhaseKind phase) { return {.run = "r", .step = 0, .phase = phase, .attempt = 0}; }
  void Attach(Nanos allowed = kMinute) {
    muster::agent::Attach attach{.key = Key(PhaseKind::kAttach), .request = {}, .allowed = allowed};
    attach.request.target.name = "t";
    link.Tell(attach);
  }
  void Prepare() {
    muster::agent::Prepare prepare{.spec = {}, .allowed = kMinute};
    prepare.spec.key = Key(PhaseKind::kMeasure);
    prepare.spec.target = "t";
    prepare.spec.work = MeasureSpec{.window_intervals = 1'000};
    link.Tell(prepare);
  }
  SessionDriver::Result End() {
    driver->Shutdown("test");
    thread.join();
    return result;
  }
};

TEST_CASE("a phase goes through the driver's threads") {
  Bench bench;
  bench.Run();
  bench.Attach();
  const auto attached = bench.link.Next<AttachDone>();
  CHECK(attached.status.ok());
  CHECK(attached.generation == 3);
  CHECK(attached.evidence.size() == 1);
  bench.Prepare();
  const auto prepared = bench.link.Next<PrepareDone>();
  CHECK(prepared.status.ok());
  CHECK(prepared.memory_bytes == 123);
  CHECK(prepared.facts.size() == 2);  // the engine's and the target's
  bench.link.Tell(Start{.key = Bench::Key(PhaseKind::kMeasure), .t0_fleet = SteadyClock::Get().Now() + kSecond});
  CHECK_FALSE(bench.link.Next<StartDone>().missed);
  bench.link.Next<FirstIo>();
  for (int k = 0; k < 5; ++k) {
    const auto report = bench.link.NextReport();
    CHECK(std::get<IntervalDelta>(report->body).interval == k);
  }
  const auto end = bench.link.NextReport();
  CHECK(std::get<PhaseEnded>(end->body).status.ok());
  bench.link.Tell(Detach{.key = Bench::Key(PhaseKind::kDetach), .all = true, .target = {}});
  CHECK(bench.link.Next<DetachDone>().status.ok());
  CHECK(bench.detached == 1);
  bench.link.Tell(Inspect{.request = 4, .items = {{.target = {.name = "x", .kind = NullTarget{}}, .objects = {}}}});
  CHECK(bench.link.Next<InspectDone>().inspections.at(0).found == "nothing");
  bench.link.Tell(
      Inspect{.request = 5, .items = {{.target = {.name = "x", .kind = NullTarget{}}, .objects = {}, .probe = true}}});
  CHECK(bench.link.Next<InspectDone>().inspections.at(0).found == "all there is");
  const auto result = bench.End();
  CHECK(result.exit_code == 0);
  CHECK(result.clean);
}

// The session thread is held up: the engine's reporter must not be, and the phase says that reports are missing.
TEST_CASE("a session that does not keep up never blocks the engine; the phase fails") {
  Latch hold;
  Bench bench;
  bench.intervals = 5'000;
  bench.link.hold_reports = &hold;
  bench.Run();
  bench.Attach();
  bench.link.Next<AttachDone>();
  bench.Prepare();
  bench.link.Next<PrepareDone>();
  bench.link.Tell(Start{.key = Bench::Key(PhaseKind::kMeasure), .t0_fleet = SteadyClock::Get().Now() + kSecond});
  CHECK_FALSE(bench.link.Next<StartDone>().missed);
  CHECK(bench.engine->emitted.Wait());  // all of them, while nobody takes any
  hold.Open();
  absl::Status status;
  for (int i = 0; i < 5'000; ++i) {
    const auto report = bench.link.NextReport();
    if (const auto* ended = std::get_if<PhaseEnded>(&report->body)) {
      status = ended->status;
      break;
    }
  }
  CHECK(GetErrorInfo(status).code == "REPORTS_LOST");
  CHECK(bench.End().clean);
}

TEST_CASE("an attach that hangs is answered in time and does not hold up the end") {
  Latch hold;
  Bench bench;
  bench.hold_attach = &hold;
  bench.Run();
  bench.Attach(50 * kMillisecond);
  CHECK(GetErrorInfo(bench.link.Next<AttachDone>().status).code == "ATTACH_TIMEOUT");
  const auto result = bench.End();
  CHECK_FALSE(result.clean);
  CHECK(result.exit_code == 3);
  hold.Open();  // a real process would have gone by _exit
}

TEST_CASE("a link that floods the session is given up") {
  Latch hold;
  Bench bench;
  bench.options.session.backoff_first = kMillisecond;
  bench.hold_attach = &hold;
  bench.Run();
  // Each is refused, which takes the session longer than it takes to send one; the queue is bounded.
  for (int i = 0; i < 200'000; ++i) {
    bench.link.Tell(Stop{.key = Bench::Key(PhaseKind::kMeasure), .now = true, .after_interval = 0});
  }
  CHECK(bench.link.WaitDials(2));
  bench.End();
}

}  // namespace
}  // namespace muster::agent
