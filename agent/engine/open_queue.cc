#include "agent/engine/open_queue.h"

#include <algorithm>

namespace muster {

OpenQueue::OpenQueue(std::vector<Pacer> streams, size_t slots)
    : arrival_pacers_(streams), issue_pacers_(std::move(streams)), found_(slots + 1) {
  for (uint32_t i = 0; i < arrival_pacers_.size(); ++i) arrivals_.push_back({arrival_pacers_[i].Next(), i});
  std::sort(arrivals_.begin(), arrivals_.end());  // a sorted array is a heap
  issues_ = arrivals_;
}

void OpenQueue::StartAt(Nanos t0) {
  for (auto* pacers : {&arrival_pacers_, &issue_pacers_}) {
    for (Pacer& pacer : *pacers) pacer.StartAt(t0);
  }
  for (Cursor& cursor : arrivals_) cursor.due = arrival_pacers_[cursor.stream].Next();
  issues_ = arrivals_;
}

void OpenQueue::Reorder(std::vector<Cursor>& heap, Nanos due) {
  const Cursor moved{due, heap.front().stream};
  size_t hole = 0;
  const size_t size = heap.size();
  for (size_t child = 1; child < size; child = 2 * hole + 1) {
    if (child + 1 < size && heap[child + 1] < heap[child]) ++child;
    if (!(heap[child] < moved)) break;
    heap[hole] = heap[child];
    hole = child;
  }
  heap[hole] = moved;
}

void OpenQueue::Arrive(bool found_free) {
  if (found_free && found_count_ < found_.size()) {
    found_[(found_head_ + found_count_++) % found_.size()] = arrived_;
  }
  ++arrived_;
  Pacer& pacer = arrival_pacers_[arrivals_.front().stream];
  pacer.Advance();
  Reorder(arrivals_, pacer.Next());
}

OpenQueue::Operation OpenQueue::Take() {
  Operation operation{.stream = issues_.front().stream, .due = issues_.front().due};
  // Both heaps give the same order, so arrival number and issue number are one.
  if (found_count_ > 0 && found_[found_head_] == taken_) {
    operation.found_free = true;
    found_head_ = (found_head_ + 1) % found_.size();
    --found_count_;
  }
  Pacer& pacer = issue_pacers_[operation.stream];
  if (++taken_ == arrived_) {
    pacer = arrival_pacers_[operation.stream];  // caught up: the other cursor has done the work
  } else {
    pacer.Advance();
  }
  Reorder(issues_, pacer.Next());
  return operation;
}

}  // namespace muster
