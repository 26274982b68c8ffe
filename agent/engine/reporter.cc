#include "agent/engine/reporter.h"

#include <algorithm>

#include "common/base/native_code.h"
#include "common/base/status.h"
#include "common/base/thread.h"
#include "fmt/format.h"

namespace muster {
namespace {

constexpr size_t kMostConnections = 4096;  // told one by one, as the message allows
constexpr Nanos kLongestNap = 20 * kMillisecond;

std::vector<std::vector<uint32_t>> SlotsOf(const EngineShared& shared) {
  std::vector<std::vector<uint32_t>> result;
  for (const auto& worker : shared.workers) {
    auto& slots = result.emplace_back();
    for (const GroupPlan& group : worker->plan.groups) slots.push_back(group.initiator);
  }
  return result;
}

std::vector<RecorderShape> ShapesOf(const EngineShared& shared) {
  std::vector<RecorderShape> result;
  for (const auto& worker : shared.workers) result.push_back(worker->plan.shape);
  return result;
}

int64_t WarmupOf(const PhaseSpec& spec) {
  const auto* measure = std::get_if<MeasureSpec>(&spec.work);
  return measure == nullptr ? 0 : measure->warmup_intervals;
}

absl::Status FillError(const PhaseSpec& spec, const LoopResult& result) {
  const uint32_t slot = result.failed_op.slot;
  std::string object = slot < spec.objects.size() ? spec.objects[slot].name : "";
  if (object.empty()) object = fmt::format("object {}", slot);
  const bool full = result.failed_outcome == IoOutcome::kNoSpace;
  return MakeError(
      full ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal,
      {.code = full ? "NO_SPACE" : "FILL_WRITE_FAILED",
       .place = fmt::format("target {} {} offset {}", spec.target, object, result.failed_op.offset),
       .message = fmt::format("filling failed: {} of {} bytes ended as {} ({})", OpKindName(result.failed_op.kind),
                              result.failed_op.bytes, OutcomeName(static_cast<Outcome>(result.failed_outcome)),
                              NativeCodeName(result.failed_code)),
       .next = full ? "Make room on the target or fill less." : "Check the target; nothing was retried."});
}

}  // namespace

Reporter::Reporter(std::shared_ptr<EngineShared> shared, const PhaseSpec& spec, EngineListener& listener,
                   std::unique_ptr<HiccupMeter> hiccup)
    : shared_(std::move(shared)),
      spec_(spec),
      listener_(listener),
      hiccup_(std::move(hiccup)),
      collector_(SlotsOf(*shared_), ShapesOf(*shared_)),
      bound_(shared_->options.report_bound, WarmupOf(spec)),
      stuck_(shared_->workers.size(), false) {}

void Reporter::Run() {
  SetThreadName("muster-report");
  Nanos t0 = 0;
  if (shared_->gate.Wait(t0) == StartGate::State::kCancelled) {
    // Never started: there is nothing to report but the end (Abort), and nobody to report to (destruction).
    if (shared_->control.abort.load()) listener_.OnEnded(MakeTotals(), absl::OkStatus());
    return;
  }
  started_ = true;
  hiccup_->Take();
  cpu_before_ = ProcessCpuNanos();
  last_look_ = shared_->clock->Now();
  const Nanos nap = std::clamp<Nanos>(spec_.interval / 4, kMillisecond, kLongestNap);
  for (;;) {
    LookAround();
    const bool finished = AllFinished();  // before the last Pull, so that nothing is left behind
    const bool busy = Pull();
    TellFirstIo(false);
    if (finished || GivenUp()) break;
    if (!busy) shared_->bell.WaitFor(nap);
  }
  End();
}

// This thread should run every few milliseconds. When it did not for a whole interval, the process did not.
void Reporter::LookAround() {
  const Nanos now = shared_->clock->Now();
  if (now - last_look_ > spec_.interval) collector_.NoteStop(last_look_, now);
  last_look_ = now;
}

bool Reporter::Pull() {
  bool any = false;
  for (size_t w = 0; w < shared_->workers.size(); ++w) {
    IntervalRecorder& recorder = *shared_->workers[w]->recorder;
    while (IntervalSet* set = recorder.TakeFull()) {
      any = true;
      const absl::Status added = collector_.Add(w, *set);
      if (!added.ok() && fault_.ok()) fault_ = added;
      recorder.GiveBack(set);
    }
  }
  while (std::optional<IntervalDelta> delta = collector_.Next()) {
    TellFirstIo(true);
    Emit(*std::move(delta));
    TellProgress();
  }
  return any;
}

void Reporter::Emit(IntervalDelta delta) {
  if (!delta.gap) {  // a gap carries no figures: its CPU time and hiccups go into the next interval
    const int64_t cpu = ProcessCpuNanos();
    delta.cpu_nanos = cpu - cpu_before_;
    cpu_before_ = cpu;
    delta.hiccup = hiccup_->Take().Encode();
  }
  std::vector<HeldHistograms> due;
  const absl::Status bounded = bound_.Apply(delta, due);
  if (!bounded.ok() && fault_.ok()) fault_ = bounded;
  for (HeldHistograms& held : due) listener_.OnHeld(std::move(held));
  listener_.OnInterval(std::move(delta));
}

// The earliest submission is known for certain when every worker has made one; at the first edge those that made none
// have nothing earlier to tell.
void Reporter::TellFirstIo(bool at_edge) {
  if (told_first_io_) return;
  Nanos first = kNever;
  Nanos lateness = 0;
  bool all = true;
  for (const auto& worker : shared_->workers) {
    const Nanos late = worker->wake_lateness.load(std::memory_order_acquire);
    if (late < 0) {
      all = false;
      continue;
    }
    lateness = std::max(lateness, late);
    const Nanos submit = worker->loop->first_submit();
    all = all && submit != kNever;
    first = std::min(first, submit);
  }
  if (first == kNever || !(all || at_edge)) return;
  told_first_io_ = true;
  listener_.OnFirstIo(first, lateness);
}

void Reporter::TellProgress() {
  const auto* fill = std::get_if<FillSpec>(&spec_.work);
  if (fill == nullptr) return;
  uint64_t total = 0;
  for (const FillExtent& extent : fill->extents) total += extent.length * fill->passes;
  listener_.OnProgress(collector_.BytesWritten(), total);
}

bool Reporter::AllFinished() const {
  return std::all_of(shared_->workers.begin(), shared_->workers.end(),
                     [](const auto& worker) { return worker->finished.load(std::memory_order_acquire); });
}

// A worker in a system call that does not return must not keep the phase from ending: the drain deadline holds for it
// as seen from here. When the end of the phase is not known (a fill), the session's Abort sets it.
bool Reporter::GivenUp() {
  const Nanos now = shared_->clock->Now();
  const int64_t last = shared_->control.stop_after.load(std::memory_order_acquire);
  const bool past_end = collector_.last_interval() >= last;
  const bool aborted = shared_->control.abort.load(std::memory_order_acquire);
  if (stopped_since_ == kNever) {
    const bool some_finished = std::any_of(shared_->workers.begin(), shared_->workers.end(), [](const auto& worker) {
      return worker->finished.load(std::memory_order_acquire);
    });
    if (past_end || aborted || some_finished) stopped_since_ = now;
    return false;
  }
  const bool orphaned = shared_->control.orphaned.load(std::memory_order_acquire);
  if (!orphaned && now < stopped_since_ + spec_.op_timeout + WorkerLoop::kDrainGrace + kStuckGrace) return false;
  for (size_t w = 0; w < shared_->workers.size(); ++w) {
    stuck_[w] = !shared_->workers[w]->finished.load(std::memory_order_acquire);
  }
  return true;
}

void Reporter::End() {
  TellFirstIo(true);
  absl::StatusOr<IntervalDelta> drain = collector_.Finish();
  if (drain.ok()) {
    Emit(*std::move(drain));
  } else if (fault_.ok()) {
    fault_ = drain.status();
  }
  for (HeldHistograms& held : bound_.Flush()) listener_.OnHeld(std::move(held));
  TellProgress();
  listener_.OnEnded(MakeTotals(), MakeStatus());
}

PhaseTotals Reporter::MakeTotals() {
  PhaseTotals totals;
  totals.initiators = collector_.Totals(stuck_);
  totals.last_interval = collector_.last_interval();
  totals.overloaded = shared_->control.overloaded.load(std::memory_order_acquire);
  for (size_t w = 0; w < shared_->workers.size(); ++w) {
    if (stuck_[w]) {
      totals.poisoned = true;
      continue;
    }
    const WorkerState& worker = *shared_->workers[w];
    if (!started_ || worker.loop == nullptr) continue;
    totals.connections.insert(totals.connections.end(), worker.connections.begin(), worker.connections.end());
    const LoopResult& result = worker.loop->result();
    totals.poisoned = totals.poisoned || result.poisoned;
    totals.straggle_count += result.straggle_count;
    totals.stragglers.insert(totals.stragglers.end(), result.stragglers.begin(), result.stragglers.end());
  }
  std::stable_sort(totals.stragglers.begin(), totals.stragglers.end(),
                   [](const StraggleOp& a, const StraggleOp& b) { return a.age_at_end > b.age_at_end; });
  // Beyond what a message carries those that were down go first: the check of connections must not miss one.
  if (totals.connections.size() > kMostConnections) {
    std::stable_partition(totals.connections.begin(), totals.connections.end(),
                          [](const ConnectionTotals& connection) { return connection.down > 0; });
    totals.connections.resize(kMostConnections);
  }
  if (totals.stragglers.size() > WorkerLoop::kMaxStragglers) totals.stragglers.resize(WorkerLoop::kMaxStragglers);
  return totals;
}

absl::Status Reporter::MakeStatus() const {
  if (!fault_.ok()) return fault_;
  for (size_t w = 0; w < shared_->workers.size(); ++w) {
    const std::string place = fmt::format("worker {}", w);
    if (stuck_[w]) {
      return MakeError(absl::StatusCode::kDeadlineExceeded,
                       {"WORKER_STUCK", place, "it is held in a system call beyond the drain deadline",
                        "Check the target; this agent must be restarted once the call has returned."});
    }
    const LoopResult& result = shared_->workers[w]->loop->result();
    switch (result.reason) {
      case EndReason::kFillError:
        return FillError(spec_, result);
      case EndReason::kLease:
        return MakeError(absl::StatusCode::kUnavailable,
                         {"LEASE_ENDED", place, "the lease ended: nothing further was submitted",
                          "Check the link to the controller."});
      case EndReason::kRecorders:
        return MakeError(absl::StatusCode::kInternal,
                         {"RECORDER_STARVED", place, "no recorder was handed back in time; figures are incomplete",
                          "Use longer intervals or fewer initiators an agent."});
      case EndReason::kBackend:
        return MakeError(absl::StatusCode::kInternal,
                         {"BACKEND_FAULT", place, "the backend completed an operation nobody had submitted", ""});
      case EndReason::kNone:
      case EndReason::kLastInterval:
      case EndReason::kAbort:
      case EndReason::kFillDone:
        break;
    }
  }
  if (collector_.lost() > 0) {
    return MakeError(
        absl::StatusCode::kResourceExhausted,
        {"RECORDER_OVERFLOW", "recorders", fmt::format("{} latencies found no room in a histogram", collector_.lost()),
         "Use more agents or fewer initiators an agent."});
  }
  return absl::OkStatus();
}

}  // namespace muster
