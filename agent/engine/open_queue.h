#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "agent/engine/pacer.h"
#include "common/base/clock.h"

namespace muster {

// The due-but-not-issued operations of one initiator on one worker, without storing any of them: each stream has two
// copies of its pacer, one that counts arrivals and one that issues them, always in order of (due, stream). However
// long a stall lasts, this stays as small as it is. Not thread-safe; times in ns of the local clock.
class OpenQueue {
 public:
  // `slots`: operations that can be issued at once, which bounds the memory for remembering who found one free.
  OpenQueue(std::vector<Pacer> streams, size_t slots);
  // Moves all schedules to begin at `t0`; before anything else.
  void StartAt(Nanos t0);

  // The next arrival not yet counted; kNever after Stop.
  Nanos NextArrival() const { return stopped_ ? kNever : arrivals_.front().due; }
  // Counts it. `found_free`: there was a slot for it at that instant.
  void Arrive(bool found_free);
  // No further arrivals; those counted can still be taken.
  void Stop() { stopped_ = true; }

  uint64_t waiting() const { return arrived_ - taken_; }
  // Of the operation that Take would give; only with waiting() > 0.
  Nanos OldestDue() const { return issues_.front().due; }

  struct Operation {
    uint32_t stream = 0;  // index into the constructor's vector
    Nanos due = 0;
    bool found_free = false;
  };
  Operation Take();

 private:
  struct Cursor {
    Nanos due;
    uint32_t stream;
    bool operator<(const Cursor& other) const { return due != other.due ? due < other.due : stream < other.stream; }
  };
  // Gives the heap's first cursor a new due instant.
  static void Reorder(std::vector<Cursor>& heap, Nanos due);

  std::vector<Pacer> arrival_pacers_;
  std::vector<Pacer> issue_pacers_;
  std::vector<Cursor> arrivals_;  // heaps, earliest first
  std::vector<Cursor> issues_;
  std::vector<uint64_t> found_;  // ring of the arrival numbers that found a free slot and are not taken yet
  size_t found_head_ = 0;
  size_t found_count_ = 0;
  uint64_t arrived_ = 0;
  uint64_t taken_ = 0;
  bool stopped_ = false;
};

}  // namespace muster
