#include <atomic>
#include <catch2/catch.hpp>
#include <future>

#include "common/base/status.h"
#include "controller/run/driver_store.h"

namespace muster {
namespace {

constexpr Nanos kPatience = 60 * kSecond;

// A run file whose disk can be held up and filled.
class FakeWriter final : public RunWriter {
 public:
  struct Shared {
    std::promise<void> open_gate;
    std::shared_future<void> gate{open_gate.get_future()};
    std::promise<void> reached;  // the first transaction is at the gate
    bool seen = false;
    std::atomic<int> transactions{0}, reports{0}, finished{0}, events{0};
    std::atomic<bool> full{false};
  };
  explicit FakeWriter(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
  std::string path() const override { return "/fake/run.db"; }
  absl::Status WritePlan(const Plan&) override { return absl::OkStatus(); }
  absl::Status WriteAgent(const RunAgent&) override { return absl::OkStatus(); }
  absl::Status CommitReports(const std::vector<RawReport>& reports) override {
    if (!std::exchange(shared_->seen, true)) shared_->reached.set_value();
    shared_->gate.wait();
    if (shared_->full) {
      return MakeError(absl::StatusCode::kResourceExhausted,
                       {.code = "STORE_FULL", .place = {}, .message = "full", .next = {}});
    }
    ++shared_->transactions;
    shared_->reports += static_cast<int>(reports.size());
    return absl::OkStatus();
  }
  absl::Status WriteInterval(const PhaseKey&, const FleetInterval&) override { return absl::OkStatus(); }
  absl::Status SealStep(const PhaseKey&, const StepResult&) override { return absl::OkStatus(); }
  absl::Status SealPhase(const PhaseKey&) override { return absl::OkStatus(); }
  absl::Status WriteEvent(int64_t, const std::string&) override {
    ++shared_->events;
    return absl::OkStatus();
  }
  absl::Status Finish(const std::string&, const std::string&, int64_t) override {
    ++shared_->finished;
    return absl::OkStatus();
  }

 private:
  std::shared_ptr<Shared> shared_;
};

StoreOp Commit(uint64_t sequence, std::shared_ptr<void> ticket = nullptr) {
  return {.what = CommitReportAction{{.agent = "a", .sequence = sequence, .key = {}, .bytes = "x"}},
          .ticket = std::move(ticket)};
}

struct Bench {
  std::shared_ptr<FakeWriter::Shared> disk = std::make_shared<FakeWriter::Shared>();
  std::shared_ptr<DriverInbox> inbox = std::make_shared<DriverInbox>();
  std::promise<absl::StatusOr<std::string>> opened;
  StoreThread thread{
      [d = disk]() -> absl::StatusOr<std::unique_ptr<RunWriter>> { return std::make_unique<FakeWriter>(d); },
      [this](absl::StatusOr<std::string> path) { opened.set_value(std::move(path)); }, inbox};

  // Answers until one of that kind has come.
  template <typename Event>
  std::vector<RunEvent> Until() {
    std::vector<RunEvent> all;
    for (Nanos until = SteadyClock::Get().Now() + kPatience; SteadyClock::Get().Now() < until;) {
      for (RunEvent& event : inbox->Take(100 * kMillisecond).store) all.push_back(std::move(event));
      if (!all.empty() && std::holds_alternative<Event>(all.back())) return all;
    }
    FAIL("no such answer");
    return all;
  }
  void Push(StoreOp op) {
    while (!thread.TryPush(op)) std::this_thread::yield();
  }
};

TEST_CASE("a full queue refuses, keeps the ticket, and commits what it took in few transactions") {
  Bench bench;
  CHECK(bench.opened.get_future().get().value() == "/fake/run.db");
  // The disk hangs: the thread holds one report, the queue as many as it takes.
  auto ticket = std::make_shared<int>(0);
  uint64_t sequence = 1;
  bench.Push(Commit(sequence, ticket));
  bench.disk->reached.get_future().get();
  CHECK(ticket.use_count() == 1);  // taken: its link may read on
  for (; sequence <= StoreThread::kQueue; ++sequence) {
    StoreOp op = Commit(sequence + 1, ticket);
    REQUIRE(bench.thread.TryPush(op));
  }
  StoreOp op = Commit(sequence + 1, ticket);
  CHECK_FALSE(bench.thread.TryPush(op));
  CHECK(op.ticket == ticket);
  op = {};
  CHECK(ticket.use_count() == 1 + static_cast<long>(StoreThread::kQueue));  // what waits keeps its link from reading on
  bench.disk->open_gate.set_value();
  uint64_t committed = 0;
  while (committed < sequence) {
    for (const RunEvent& event : bench.Until<ReportsCommitted>()) {
      if (const auto* c = std::get_if<ReportsCommitted>(&event)) {
        CHECK(c->sequence > committed);
        committed = c->sequence;
      }
    }
  }
  CHECK(committed == sequence);
  CHECK(ticket.use_count() == 1);
  CHECK(bench.disk->reports == static_cast<int>(sequence));
  CHECK(bench.disk->transactions < static_cast<int>(sequence) / 10);
}

TEST_CASE("after a failure nothing is written but the end, and it is said once") {
  Bench bench;
  bench.disk->full = true;
  bench.disk->open_gate.set_value();
  for (uint64_t i = 1; i <= 5; ++i) bench.Push(Commit(i));
  bench.Push({.what = StoreEvent{1, "text"}, .ticket = nullptr});
  bench.Push({.what = FinishAction{"failed", "full"}, .ticket = nullptr});
  int failures = 0;
  for (const RunEvent& event : bench.Until<StoreFinished>()) {
    failures += std::holds_alternative<StoreFailed>(event) ? 1 : 0;
    CHECK_FALSE(std::holds_alternative<ReportsCommitted>(event));
  }
  CHECK(failures == 1);
  CHECK(bench.disk->events == 0);
  CHECK(bench.disk->finished == 1);
}

TEST_CASE("a run file that cannot be made is an error, not a thread") {
  auto inbox = std::make_shared<DriverInbox>();
  std::promise<absl::StatusOr<std::string>> opened;
  StoreThread thread([]() -> absl::StatusOr<std::unique_ptr<RunWriter>> { return absl::PermissionDeniedError("no"); },
                     [&](absl::StatusOr<std::string> path) { opened.set_value(std::move(path)); }, inbox);
  CHECK_FALSE(opened.get_future().get().ok());
}

}  // namespace
}  // namespace muster
