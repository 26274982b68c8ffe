// Interval edges, ends and drain of a worker; the iteration is in worker_loop.cc.
#include <algorithm>
#include <utility>

#include "agent/engine/worker_loop.h"

namespace muster {

Nanos WorkerLoop::EdgeOf(int64_t interval) const {
  return t0_fleet_ + interval * config_.interval - fleet_.Get().offset;
}

// The edge follows the estimate of the moment, but never back behind anything that is already counted.
void WorkerLoop::RefreshEdge() {
  const uint32_t version = fleet_.version();
  if (version == fleet_version_) return;
  fleet_version_ = version;
  next_edge_ = std::max({EdgeOf(interval_ + 1), applied_ + 1, begin_ + 1});
}

// Closes every interval that has ended by `t`. False: no clean set; nothing is lost, to be called again.
bool WorkerLoop::CloseIntervals(Nanos t) {
  if (state_ != State::kRunning) return true;
  RefreshEdge();
  while (state_ == State::kRunning && t >= next_edge_) {
    IntervalSet* next = recorder_.TakeClean();
    if (next == nullptr) return false;
    CloseInterval(next_edge_, next);
  }
  return true;
}

void WorkerLoop::CloseInterval(Nanos edge, IntervalSet* next) {
  AdvanceArrivals(edge, false);
  WriteFigures(edge);
  set_->missed = !ran_;
  ran_ = false;
  recorder_.Publish(std::exchange(set_, next));
  published_();
  ++interval_;
  begin_ = edge;
  if (interval_ == config_.warmup) window_from_ = edge;
  set_->primary_in_window = open_ && interval_ >= config_.warmup;
  if (interval_ > control_.stop_after.load(std::memory_order_acquire)) {
    EnterDrain(edge, EndReason::kLastInterval, !control_.overloaded.load(std::memory_order_acquire));
  } else {
    next_edge_ = std::max(EdgeOf(interval_ + 1), edge + 1);
  }
}

// Everything the set carries beside histograms, as it stands at `t`.
void WorkerLoop::WriteFigures(Nanos t) {
  set_->interval = interval_;
  set_->begin = begin_;
  set_->end = t;
  set_->edge_error = fleet_.ErrorAt(t);
  for (size_t g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    InitiatorFigures& figures = set_->initiators[g];
    group.meter.To(t);
    figures.offered_integral = group.meter.offered_integral;
    figures.wire_integral = group.meter.wire_integral;
    group.meter.Restart();
    figures.outstanding = group.meter.wire;
    figures.waiting = group.waiting();
    if (group.full_since != kNever) {
      group.time_full += t - group.full_since;
      group.full_since = t;
    }
    figures.time_full = std::exchange(group.time_full, 0);
    figures.totals = group.totals;
    figures.oldest_age = group.queue && group.queue->waiting() > 0 ? t - group.queue->OldestDue() : 0;
  }
  for (const Slot& slot : slots_) {
    if (slot.state == SlotState::kIdle || slot.due == kNever) continue;
    Nanos& oldest = set_->initiators[slot.group].oldest_age;
    oldest = std::max(oldest, t - slot.due);
  }
}

void WorkerLoop::CheckOverload() {
  if (full_groups_ == 0) return;
  Nanos oldest = kNever;
  for (const Lane& lane : lanes_) {
    if (lane.head < lane.stamped) oldest = std::min(oldest, slots_[lane.offer[lane.head].tag].due);
  }
  for (const Group& group : groups_) {
    if (group.queue->waiting() > 0) oldest = std::min(oldest, group.queue->OldestDue());
  }
  if (now_ - oldest < config_.work->overload_after) return;
  // Everybody stops at the next edge, with what has been measured.
  control_.overloaded.store(true, std::memory_order_release);
  int64_t last = control_.stop_after.load(std::memory_order_relaxed);
  while (last > interval_ && !control_.stop_after.compare_exchange_weak(last, interval_, std::memory_order_acq_rel)) {
  }
}

void WorkerLoop::CheckCommands() {
  if (__builtin_expect(control_.abort.load(std::memory_order_relaxed), 0) && !backend_aborted_) {
    backend_aborted_ = true;
    StopNow(EndReason::kAbort);
    for (Lane& lane : lanes_) lane.backend->Abort();
  }
  if (state_ == State::kRunning && now_ >= lease_.load(std::memory_order_relaxed)) StopNow(EndReason::kLease);
  if (result_.reason == EndReason::kBackend) StopNow(EndReason::kBackend);
  if (!fill_ || state_ != State::kRunning) return;
  if (result_.failed_outcome != IoOutcome::kOk) {
    StopNow(EndReason::kFillError);
  } else if (fill_->finished()) {
    StopNow(EndReason::kFillDone);
  }
}

// Nothing further goes out. The interval that runs becomes the drain.
void WorkerLoop::StopNow(EndReason reason) {
  issue_backlog_ = false;
  if (state_ != State::kRunning) return;
  AdvanceArrivals(now_, true);
  EnterDrain(now_, reason, false);
}

void WorkerLoop::GiveUpRecorders() {
  starved_ = false;
  stamp_ = now_;
  RecordBatch();
  StopNow(EndReason::kRecorders);
}

void WorkerLoop::EnterDrain(Nanos end, EndReason reason, bool issue_backlog) {
  state_ = State::kDraining;
  result_.reason = reason;
  end_ = end;
  issue_backlog_ = issue_backlog;
  drain_deadline_ = end + config_.op_timeout + kDrainGrace;
  next_edge_ = kNever;
  for (Group& group : groups_) {
    if (group.queue) group.queue->Stop();
  }
  next_arrival_ = kNever;
  // Closed loop: what was prepared but never offered was never due.
  for (Lane& lane : lanes_) {
    for (size_t i = lane.stamped; i < lane.tail; ++i) slots_[lane.offer[i].tag].state = SlotState::kIdle;
    lane.tail = lane.stamped;
  }
  ListStragglers();
}

uint32_t WorkerLoop::AddStraggler(uint32_t group, OpKind kind, Nanos due) {
  result_.stragglers.push_back(
      {.initiator = groups_[group].initiator, .kind = kind, .age_at_end = end_ - due, .final_age = 0, .ended = false});
  return static_cast<uint32_t>(result_.stragglers.size());
}

// The oldest with the backend or refused by it. Those of a queue follow as they are taken from it, oldest first.
void WorkerLoop::ListStragglers() {
  std::vector<uint32_t> open;
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].state != SlotState::kIdle) open.push_back(i);
  }
  result_.straggle_count = open.size();
  for (const Group& group : groups_) result_.straggle_count += group.queue ? group.queue->waiting() : 0;
  std::sort(open.begin(), open.end(), [&](uint32_t a, uint32_t b) { return slots_[a].due < slots_[b].due; });
  if (open.size() > kMaxStragglers) open.resize(kMaxStragglers);
  for (const uint32_t i : open) {
    slots_[i].straggler = AddStraggler(slots_[i].group, slots_[i].op.kind, slots_[i].due);
  }
}

bool WorkerLoop::Drained() const {
  if (stamp_ >= drain_deadline_) return true;
  if (wire_ > 0) return false;
  return !issue_backlog_ ||
         std::all_of(groups_.begin(), groups_.end(), [](const Group& group) { return group.waiting() == 0; });
}

void WorkerLoop::RecordUnfinished(uint32_t group, OpKind kind, Nanos due, bool in_window, uint32_t straggler) {
  const Nanos age = stamp_ - due;
  set_->At(group, kind, in_window).RecordUnfinished(static_cast<uint64_t>(age));
  if (straggler != 0) result_.stragglers[straggler - 1].final_age = age;
}

void WorkerLoop::FinishDrain() {
  for (Slot& slot : slots_) {
    if (slot.state != SlotState::kWire) continue;
    ++groups_[slot.group].totals[static_cast<size_t>(slot.op.kind)].abandoned;
    result_.poisoned = true;
  }
  WriteFigures(stamp_);
  for (const Slot& slot : slots_) {
    if (slot.state == SlotState::kIdle) continue;
    RecordUnfinished(slot.group, slot.op.kind, slot.due, slot.in_window, slot.straggler);
  }
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    while (group.queue && group.queue->waiting() > 0) {
      const OpenQueue::Operation due = group.queue->Take();
      const PlannedOp op = streams_[group.first_stream + due.stream].Next();
      const uint32_t straggler = group.listed++ < kMaxStragglers ? AddStraggler(g, op.kind, due.due) : 0;
      RecordUnfinished(g, op.kind, due.due, due.due >= window_from_, straggler);
    }
  }
  set_->drain = true;
  recorder_.Publish(std::exchange(set_, nullptr));
  state_ = State::kFinished;
  published_();
}

}  // namespace muster
