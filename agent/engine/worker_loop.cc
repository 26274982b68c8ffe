// The iteration of a worker: what runs for every batch of operations. Intervals and ends are in worker_edges.cc.
#include "agent/engine/worker_loop.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "agent/engine/data_pattern.h"

namespace muster {
namespace {

constexpr size_t kLargestBatch = 256;  // completions a poll
constexpr Nanos kStarvedPoll = 50 * kMicrosecond;

static_assert(static_cast<int>(IoKind::kRead) == static_cast<int>(OpKind::kRead) &&
              static_cast<int>(IoKind::kWrite) == static_cast<int>(OpKind::kWrite) &&
              static_cast<int>(IoKind::kFlush) == static_cast<int>(OpKind::kFlush) &&
              static_cast<int>(IoKind::kTrim) == static_cast<int>(OpKind::kTrim));
static_assert(static_cast<int>(IoOutcome::kOk) == static_cast<int>(Outcome::kOk) &&
              static_cast<int>(IoOutcome::kNoSpace) == static_cast<int>(Outcome::kNoSpace) &&
              static_cast<int>(IoOutcome::kOther) == static_cast<int>(Outcome::kOther));

bool Writes(const LoopConfig& config) {
  return config.fill.has_value() || (config.work->read < 1 && config.work->trim < 1);
}

}  // namespace

WorkerLoop::WorkerLoop(const LoopConfig& config, const WorkerPlan& plan, uint32_t worker,
                       std::span<Backend* const> backends, const BufferPool& buffers, IntervalRecorder& recorder,
                       const Clock& clock, const FleetTime& fleet, const LeaseEnd& lease, LoopControl& control,
                       std::function<void()> published)
    : config_(config),
      buffers_(buffers),
      recorder_(recorder),
      clock_(clock),
      fleet_(fleet),
      lease_(lease),
      control_(control),
      published_(std::move(published)),
      open_(config.work.has_value() && config.work->pacing != Pacing::kClosed),
      makes_content_(Writes(config)),
      content_seed_(MixSeed(config.content_seed, static_cast<uint64_t>(SeedPurpose::kContent),
                            plan.groups.front().initiator, worker)),
      slots_(plan.slots),
      groups_(plan.groups.size()),
      lanes_(backends.size()),
      completions_(std::min<size_t>(plan.slots, kLargestBatch)) {
  if (config.fill) fill_.emplace(*config.fill);
  connections_ = plan.connections;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    lanes_[i].backend = backends[i];
    if (fill_ && connections_) {
      const uint32_t object = plan.lanes[i].object;
      if (object_lane_.size() <= object) object_lane_.resize(object + 1, 0);
      object_lane_[object] = static_cast<uint32_t>(i);
    }
    lanes_[i].offer.resize(2 * static_cast<size_t>(lanes_.size() == 1 ? plan.slots : plan.lanes[i].slots));
    if (const uint32_t batch = backends[i]->Describe().submit_batch; batch > 0) lanes_[i].batch = batch;
  }
  idle_.reserve(plan.slots);
  uint32_t next_slot = 0;
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    const GroupPlan& group_plan = plan.groups[g];
    Group& group = groups_[g];
    group.initiator = group_plan.initiator;
    group.first_stream = static_cast<uint32_t>(streams_.size());
    if (!group_plan.streams.empty()) {
      group.first_lane = group_plan.streams.front().lane;
      group.lanes = group_plan.streams.back().lane - group.first_lane + 1;
    }
    std::vector<Pacer> pacers;
    for (const StreamPlan& stream : group_plan.streams) {
      const Workload& work = *config.work;
      stream_lane_.push_back(stream.lane);
      streams_.emplace_back(work, stream.extent,
                            StreamSeed(work.seed, SeedPurpose::kSource, group.initiator, stream.stream));
      if (open_) {
        pacers.emplace_back(work.pacing, stream.rate,
                            StreamSeed(work.seed, SeedPurpose::kPacer, group.initiator, stream.stream), 0);
      }
    }
    for (uint32_t i = 0; i < group_plan.slots; ++i, ++next_slot) {
      Slot& slot = slots_[next_slot];
      slot.group = g;
      if (open_) {
        group.free_slots.push_back(next_slot);
      } else {
        // In closed loop a slot belongs to one stream for good.
        const size_t count = group_plan.streams.size();
        slot.stream = group.first_stream + static_cast<uint32_t>(count == 0 ? 0 : i * count / group_plan.slots);
        if (count > 0) slot.lane = stream_lane_[slot.stream];
        idle_.push_back(next_slot);
      }
    }
    if (open_) group.queue = std::make_unique<OpenQueue>(std::move(pacers), group_plan.slots);
  }
  set_ = recorder_.TakeClean();
}

WorkerLoop::~WorkerLoop() = default;

void WorkerLoop::Begin(Nanos t0_fleet) {
  t0_fleet_ = t0_fleet;
  begin_ = EdgeOf(0);
  for (Group& group : groups_) {
    group.meter.last = begin_;
    if (!open_) continue;
    group.queue->StartAt(begin_);
    next_arrival_ = std::min(next_arrival_, group.queue->NextArrival());
  }
  fleet_version_ = fleet_.version();
  next_edge_ = EdgeOf(1);
  if (config_.warmup == 0) window_from_ = begin_;
  set_->primary_in_window = open_ && config_.warmup == 0;
  applied_ = begin_;
  for (Lane& lane : lanes_) lane.backend->PhaseStarts(begin_);
  Woke();
}

void WorkerLoop::Woke() {
  last_look_ = now_ = clock_.Now();
}

void WorkerLoop::Spin(Nanos until) {
  do {
    Poll();
  } while (pending_ == 0 && now_ < until && !orphaned());
  polled_ = true;
}

WorkerLoop::Next WorkerLoop::Step() {
  if (finished()) return {now_, false};
  if (!starved_) {
    if (!std::exchange(polled_, false)) Poll();
    if (orphaned()) {
      state_ = State::kFinished;
      result_.poisoned = true;
      return {now_, false};
    }
  } else {
    now_ = clock_.Now();
    gap_ = std::max(gap_, now_ - last_look_);
    if (pending_ == 0) stamp_ = now_;
  }
  if (starved_ = !CloseIntervals(stamp_); starved_) return {now_ + kStarvedPoll, true};
  ran_ = true;
  const bool reaped = pending_ > 0;
  RecordBatch();
  CheckCommands();
  if (state_ == State::kDraining && Drained()) {
    FinishDrain();
    return {now_, false};
  }
  if (state_ == State::kRunning || issue_backlog_) {
    if (open_) {
      Collect();
    } else if (state_ == State::kRunning) {
      Refill();
    }
    bool offered = false;
    for (Lane& lane : lanes_) {
      if (lane.head == lane.tail) continue;
      // A paced operation that met an idle worker is issued on the sample that found it due: another one would only
      // add the time of taking it to its wait.
      const bool sample_is_fresh = open_ && !reaped && !made_content_ && !offered;
      if (!sample_is_fresh) now_ = clock_.Now();
      Offer(lane);
      offered = true;
      if (starved_ || orphaned() || (state_ != State::kRunning && !issue_backlog_)) break;
    }
    if (!offered && !reaped) PrepareContent();
    if (open_ && state_ == State::kRunning) CheckOverload();
  }
  return {starved_ ? now_ + kStarvedPoll : WaitUntil(), starved_};
}

void WorkerLoop::Poll() {
  pending_ = 0;
  // Begins with another lane each time: one that always has something must not keep the last ones waiting.
  for (size_t i = 0; i < lanes_.size() && pending_ < completions_.size(); ++i) {
    Lane& lane = lanes_[(first_lane_ + i) % lanes_.size()];
    pending_ += lane.backend->Reap({completions_.data() + pending_, completions_.size() - pending_}, now_);
    if (orphaned()) return;
  }
  if (lanes_.size() > 1) first_lane_ = (first_lane_ + 1) % lanes_.size();
  more_ = lanes_.size() > 1 && pending_ == completions_.size();
  stamp_ = now_ = clock_.Now();
  const Nanos gap = stamp_ - last_look_;
  gap_ = std::max(gap_, gap);
  if (pending_ > 0) batch_gap_ = gap;
  last_look_ = stamp_;
  made_content_ = false;
}

void WorkerLoop::RecordBatch() {
  set_->poll_gap_max = std::max(set_->poll_gap_max, gap_);
  set_->stamp_error = std::max(set_->stamp_error, batch_gap_);
  gap_ = batch_gap_ = 0;
  AdvanceArrivals(stamp_, true);
  for (size_t i = 0; i < pending_; ++i) Complete(completions_[i]);
  pending_ = 0;
  applied_ = stamp_;
}

void WorkerLoop::Complete(const IoCompletion& completion) {
  if (__builtin_expect(completion.tag >= slots_.size() || slots_[completion.tag].state != SlotState::kWire, 0)) {
    result_.reason = EndReason::kBackend;  // nothing it says can be trusted; CheckCommands stops
    return;
  }
  const auto index = static_cast<uint32_t>(completion.tag);
  Slot& slot = slots_[index];
  Group& group = groups_[slot.group];
  group.meter.To(stamp_);
  --group.meter.offered;
  --group.meter.wire;
  --wire_;
  slot.state = SlotState::kIdle;

  KindTotals& totals = group.totals[static_cast<size_t>(slot.op.kind)];
  KindRecorder& recorder = set_->At(slot.group, slot.op.kind, slot.in_window);
  const auto response = static_cast<uint64_t>(stamp_ - slot.due);
  IoOutcome outcome = completion.outcome;
  // A kernel path cannot take an operation back: what comes after the op timeout has timed out all the same.
  if (__builtin_expect(stamp_ - slot.issued > config_.op_timeout && outcome == IoOutcome::kOk, 0)) {
    outcome = IoOutcome::kTimeout;
  }
  if (__builtin_expect(outcome == IoOutcome::kOk, 1)) {
    ++totals.completed;
    totals.bytes += slot.op.bytes;
    recorder.RecordOk(response, static_cast<uint64_t>(slot.issued - slot.due), slot.op.bytes);
    if (fill_) fill_->Done(slot.op);
  } else {
    ++(outcome == IoOutcome::kAborted ? totals.aborted : totals.failed);
    recorder.RecordFailure(static_cast<Outcome>(outcome), completion.native_code, response);
    if (fill_ && result_.failed_outcome == IoOutcome::kOk && outcome != IoOutcome::kAborted) {
      result_.failed_op = slot.op;
      result_.failed_outcome = outcome;
      result_.failed_code = completion.native_code;
    }
  }
  if (__builtin_expect(slot.straggler != 0, 0)) {
    StraggleOp& straggler = result_.stragglers[slot.straggler - 1];
    straggler.final_age = static_cast<Nanos>(response);
    straggler.ended = true;
    slot.straggler = 0;
  }
  (open_ ? group.free_slots : idle_).push_back(index);
}

// Closed loop: every idle slot gets its stream's next operation, not yet due.
void WorkerLoop::Refill() {
  size_t kept = 0;
  for (const uint32_t index : idle_) {
    PlannedOp op;
    if (fill_) {
      if (!fill_->Next(op)) {
        idle_[kept++] = index;
        continue;
      }
      if (connections_) slots_[index].lane = object_lane_[op.slot];
    } else {
      op = streams_[slots_[index].stream].Next();
    }
    slots_[index].due = kNever;
    Place(index, op);
  }
  idle_.resize(kept);
}

// Open loop: operations that are due get the free slots, the oldest of each initiator first.
void WorkerLoop::Collect() {
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    while (!group.free_slots.empty() && group.queue->waiting() > 0) {
      const OpenQueue::Operation due = group.queue->Take();
      const uint32_t index = group.free_slots.back();
      group.free_slots.pop_back();
      Slot& slot = slots_[index];
      slot.stream = group.first_stream + due.stream;
      slot.lane = stream_lane_[slot.stream];
      slot.due = due.due;
      slot.found_free = due.found_free;
      slot.in_window = due.due >= window_from_;
      ++group.refused;
      const PlannedOp op = streams_[slot.stream].Next();
      if (state_ == State::kDraining && group.listed < kMaxStragglers) {
        ++group.listed;
        slot.straggler = AddStraggler(g, op.kind, slot.due);
      }
      Place(index, op);
      lanes_[slot.lane].stamped = lanes_[slot.lane].tail;
    }
  }
}

void WorkerLoop::Place(uint32_t index, const PlannedOp& op) {
  Slot& slot = slots_[index];
  slot.op = op;
  slot.state = SlotState::kOffered;
  uint8_t* buffer = buffers_.At(index);
  if (op.kind == OpKind::kWrite && !slot.fresh) {
    FillUnique(buffer, op.bytes, content_seed_, ++content_number_);
    made_content_ = true;
  }
  slot.fresh = false;
  Lane& lane = lanes_[slot.lane];
  if (lane.tail == lane.offer.size()) {
    std::copy(lane.offer.begin() + static_cast<ptrdiff_t>(lane.head), lane.offer.end(), lane.offer.begin());
    lane.stamped -= lane.head;
    lane.tail -= lane.head;
    lane.head = 0;
  }
  lane.offer[lane.tail++] = {.offset = op.offset,
                             .buffer = buffer,
                             .tag = index,
                             .bytes = op.bytes,
                             .object = connections_ ? 0 : op.slot,
                             .kind = static_cast<IoKind>(op.kind),
                             .flags = 0,
                             .buffer_index = buffers_.RegionOf(index)};
}

// In portions of the backend's batch, each with a stamp of its own: an operation must not be called issued while the
// system call that carries those before it still runs. At now_, sampled just before.
void WorkerLoop::Offer(Lane& lane) {
  OfferBatch(lane);
  while (!starved_ && !orphaned() && !lane.full && lane.head != lane.tail &&
         (state_ == State::kRunning || issue_backlog_)) {
    now_ = clock_.Now();
    OfferBatch(lane);
  }
}

// Closed loop: due is the first Submit that offers it.
void WorkerLoop::StampOffered(Lane& lane, size_t end, Nanos t) {
  for (; lane.stamped < end; ++lane.stamped) {
    Slot& slot = slots_[lane.offer[lane.stamped].tag];
    Group& group = groups_[slot.group];
    slot.due = t;
    group.meter.To(t);
    ++group.meter.offered;
    ++group.refused;
  }
}

void WorkerLoop::OfferBatch(Lane& lane) {
  const Nanos t = now_;
  if (starved_ = !CloseIntervals(t); starved_) return;
  if (t >= lease_.load(std::memory_order_relaxed)) StopNow(EndReason::kLease);
  if (state_ != State::kRunning && !issue_backlog_) return;
  AdvanceArrivals(t, true);
  const size_t offered = std::min(lane.tail - lane.head, lane.batch);
  if (offered == 0) return;
  StampOffered(lane, lane.head + offered, t);
  const size_t accepted = lane.backend->Submit({lane.offer.data() + lane.head, offered}, t);
  if (orphaned()) return;
  for (size_t i = 0; i < accepted; ++i) {
    Slot& slot = slots_[lane.offer[lane.head + i].tag];
    Group& group = groups_[slot.group];
    slot.issued = t;
    slot.state = SlotState::kWire;
    group.meter.To(t);
    ++group.meter.wire;
    --group.refused;
    ++group.totals[static_cast<size_t>(slot.op.kind)].submitted;
    if (open_ && slot.found_free) set_->lateness[slot.group].Record(static_cast<uint64_t>(t - slot.due));
  }
  wire_ += static_cast<uint32_t>(accepted);
  lane.full = accepted < offered;
  if (lane.full) StampOffered(lane, lane.tail, t);  // the rest was offered just as much, and begins to wait
  lane.head += accepted;
  if (lane.head == lane.tail) lane.head = lane.tail = lane.stamped = 0;
  any_full_ = std::any_of(lanes_.begin(), lanes_.end(), [](const Lane& l) { return l.full; });
  NoteFull(t);
  applied_ = t;
  if (__builtin_expect(first_submit() == kNever, 0) && accepted > 0) first_submit_.store(t, std::memory_order_release);
}

// Counts what has become due before `t` (or at it), each at its own instant.
void WorkerLoop::AdvanceArrivals(Nanos t, bool inclusive) {
  const Nanos until = inclusive ? t : t - 1;
  if (next_arrival_ > until) return;
  next_arrival_ = kNever;
  for (Group& group : groups_) {
    OpenQueue& queue = *group.queue;
    for (Nanos due = queue.NextArrival(); due <= until; due = queue.NextArrival()) {
      group.meter.To(due);
      ++group.meter.offered;
      const bool found_free = !(any_full_ && SomeLaneFull(group)) && queue.waiting() < group.free_slots.size();
      queue.Arrive(found_free);
      if (!found_free && group.full_since == kNever) {
        group.full_since = due;
        ++full_groups_;
      }
    }
    next_arrival_ = std::min(next_arrival_, queue.NextArrival());
  }
}

bool WorkerLoop::SomeLaneFull(const Group& group) const {
  const auto first = lanes_.begin() + group.first_lane;
  return std::any_of(first, first + group.lanes, [](const Lane& lane) { return lane.full; });
}

// After a Submit: who has operations due that could not be handed over?
void WorkerLoop::NoteFull(Nanos t) {
  if (!any_full_ && full_groups_ == 0) return;
  for (Group& group : groups_) {
    const bool full = group.refused > 0 || (open_ && group.queue->waiting() > 0 && group.free_slots.empty());
    if (full && group.full_since == kNever) {
      group.full_since = t;
      ++full_groups_;
    } else if (!full && group.full_since != kNever) {
      group.time_full += t - group.full_since;
      group.full_since = kNever;
      --full_groups_;
    }
  }
}

// Open loop, nothing to do: content for the next write is made before it is due, so that making it is no wait.
void WorkerLoop::PrepareContent() {
  if (!open_ || !makes_content_) return;
  for (Group& group : groups_) {
    if (group.free_slots.empty()) continue;
    const uint32_t index = group.free_slots.back();
    Slot& slot = slots_[index];
    if (slot.fresh) continue;
    FillUnique(buffers_.At(index), static_cast<size_t>(config_.work->block), content_seed_, ++content_number_);
    slot.fresh = true;
    return;  // one at a time: something may have become due
  }
}

Nanos WorkerLoop::WaitUntil() const {
  if (more_) return now_;
  Nanos until = now_ + kCommandPoll;
  for (const Lane& lane : lanes_) until = std::min(until, lane.backend->NextTimer());
  if (state_ == State::kRunning) {
    until = std::min({until, next_edge_, lease_.load(std::memory_order_relaxed)});
  } else {
    until = std::min(until, drain_deadline_);
  }
  if (!open_ || (state_ == State::kDraining && !issue_backlog_)) return until;
  // A sole backend that is full takes nothing before something ends.
  if (lanes_.size() == 1 && lanes_.front().full) return until;
  for (const Group& group : groups_) {
    if (group.free_slots.empty()) continue;
    if (group.queue->waiting() > 0) return now_;
    until = std::min(until, group.queue->NextArrival());
  }
  return until;
}

}  // namespace muster
