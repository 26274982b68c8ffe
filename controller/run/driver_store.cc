#include "controller/run/driver_store.h"

#include <map>
#include <optional>
#include <utility>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/thread.h"

namespace muster {
namespace {

constexpr size_t kBatchReports = 128;
constexpr size_t kBatchBytes = size_t{4} << 20;

}  // namespace

struct StoreThread::Shared {
  explicit Shared(std::shared_ptr<DriverInbox> in) : inbox(std::move(in)) {}

  void Loop(const Open& open, const std::function<void(absl::StatusOr<std::string>)>& opened);
  void Do(StoreOp op);
  void Commit(CommitReportAction first);
  void Answer(const absl::Status& status, RunEvent event);

  BoundedQueue<StoreOp> queue{kQueue};
  std::shared_ptr<DriverInbox> inbox;
  std::unique_ptr<RunWriter> writer;
  std::optional<StoreOp> next;  // popped while a batch was gathered, not part of it
  bool failed = false;
  std::mutex mutex;
  std::condition_variable left;
  bool over = false;
};

StoreThread::StoreThread(Open open, std::function<void(absl::StatusOr<std::string>)> opened,
                         std::shared_ptr<DriverInbox> inbox)
    : shared_(std::make_shared<Shared>(std::move(inbox))),
      thread_([shared = shared_, open = std::move(open), opened = std::move(opened)] {
        SetThreadName("store");
        shared->Loop(open, opened);
        std::lock_guard lock(shared->mutex);
        shared->over = true;
        shared->left.notify_all();
      }) {}

StoreThread::~StoreThread() {
  shared_->queue.Close();
  std::unique_lock lock(shared_->mutex);
  const bool over = shared_->left.wait_for(lock, std::chrono::nanoseconds(kLeave), [&] { return shared_->over; });
  lock.unlock();
  over ? thread_.join() : thread_.detach();
}

bool StoreThread::TryPush(StoreOp& op) {
  return shared_->queue.TryPush(std::move(op));
}

void StoreThread::Shared::Loop(const Open& open, const std::function<void(absl::StatusOr<std::string>)>& opened) {
  auto made = open();
  if (!made.ok()) {
    opened(made.status());
    return;
  }
  writer = std::move(*made);
  opened(writer->path());
  for (;;) {
    if (next) {
      Do(*std::exchange(next, std::nullopt));
      continue;
    }
    std::optional<StoreOp> op = queue.Pop(kSecond);
    if (op) {
      Do(std::move(*op));
    } else if (queue.closed()) {
      return;
    }
  }
}

void StoreThread::Shared::Answer(const absl::Status& status, RunEvent event) {
  if (status.ok()) {
    inbox->OnStore(std::move(event));
  } else if (!std::exchange(failed, true)) {
    inbox->OnStore(StoreFailed{status});
  }
}

// Everything that waits and is a report, up to a bound, is one transaction.
void StoreThread::Shared::Commit(CommitReportAction first) {
  std::vector<RawReport> batch;
  size_t bytes = first.report.bytes.size();
  batch.push_back(std::move(first.report));
  while (batch.size() < kBatchReports && bytes < kBatchBytes) {
    std::optional<StoreOp> more = queue.Pop(0);
    if (!more) break;
    auto* report = std::get_if<CommitReportAction>(&more->what);
    if (report == nullptr) {
      next = std::move(more);
      break;
    }
    bytes += report->report.bytes.size();
    batch.push_back(std::move(report->report));
  }
  const absl::Status status = writer->CommitReports(batch);
  if (!status.ok()) return Answer(status, Tick{});
  std::map<std::string, uint64_t> committed;
  for (const RawReport& report : batch) committed[report.agent] = std::max(committed[report.agent], report.sequence);
  for (const auto& [agent, sequence] : committed) inbox->OnStore(ReportsCommitted{agent, sequence});
}

void StoreThread::Shared::Do(StoreOp op) {
  op.ticket.reset();
  if (auto* finish = std::get_if<FinishAction>(&op.what)) {
    const absl::Status status = writer->Finish(finish->outcome, finish->message, WallMicros());
    if (!status.ok()) Answer(status, Tick{});
    inbox->OnStore(StoreFinished{});
    failed = true;  // nothing is written after the end
    return;
  }
  if (failed) return;
  if (auto* report = std::get_if<CommitReportAction>(&op.what)) {
    Commit(std::move(*report));
  } else if (auto* space = std::get_if<StoreSpace>(&op.what)) {
    // No room is the plan's problem, not a broken store: what was kept stays open.
    inbox->OnStore(SpaceChecked{CheckSpace(space->dir, space->bytes)});
  } else if (auto* interval = std::get_if<WriteIntervalAction>(&op.what)) {
    if (absl::Status status = writer->WriteInterval(interval->key, interval->interval); !status.ok()) {
      Answer(status, Tick{});
    }
  } else if (auto* seal = std::get_if<SealStepAction>(&op.what)) {
    Answer(writer->SealStep(seal->key, *seal->result), StepSealed{seal->result->step.index});
  } else if (auto* phase = std::get_if<SealPhaseAction>(&op.what)) {
    if (absl::Status status = writer->SealPhase(phase->key); !status.ok()) Answer(status, Tick{});
  } else if (auto* event = std::get_if<StoreEvent>(&op.what)) {
    if (absl::Status status = writer->WriteEvent(event->wall_micros, event->text); !status.ok()) {
      Answer(status, Tick{});
    }
  }
}

}  // namespace muster
