#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/queue.h"
#include "common/stats/kind_recorder.h"
#include "common/stats/op_stats.h"
#include "common/stats/paged_recorder.h"

namespace muster {

// What one worker records: for how many of its initiators, which kinds, and whether operations are told apart by
// being due in the window (open loop).
struct RecorderShape {
  uint32_t initiators = 0;
  std::array<bool, kOpKinds> kinds{};
  bool open_loop = false;
};

// Everything one worker says of one initiator in one interval, histograms apart.
struct InitiatorFigures {
  Uint128 offered_integral = 0;
  Uint128 wire_integral = 0;
  uint64_t outstanding = 0;
  uint64_t waiting = 0;
  Nanos oldest_age = 0;
  Nanos time_full = 0;
  std::array<KindTotals, kOpKinds> totals;  // running counters of the phase as they stand at the end
};

// All recorders of one worker for one interval. Written by the worker while current, then read by the reporter.
class IntervalSet {
 public:
  IntervalSet(const RecorderShape& shape, PagePool* pool);
  IntervalSet(const IntervalSet&) = delete;
  IntervalSet& operator=(const IntervalSet&) = delete;

  // The recorder of (initiator slot, kind, due in the window). The kind must be in the shape.
  KindRecorder& At(uint32_t slot, OpKind kind, bool in_window) {
    return *table_[(slot * kOpKinds + static_cast<uint32_t>(kind)) * 2 + (in_window != primary_in_window ? 1 : 0)];
  }
  // nullptr where the shape has none.
  const KindRecorder* Find(uint32_t slot, OpKind kind, bool in_window) const {
    return table_[(slot * kOpKinds + static_cast<uint32_t>(kind)) * 2 + (in_window != primary_in_window ? 1 : 0)];
  }
  uint64_t Lost() const;  // values that found no page
  void Clear();

  int64_t interval = 0;
  bool drain = false;
  bool missed = false;  // the worker did not run inside it at all
  // The cohort most operations of this interval belong to. It gets the first recorder of each pair, so that the other
  // one, used around the edges of the window only, keeps few pages.
  bool primary_in_window = false;
  Nanos begin = 0;
  Nanos end = 0;
  Nanos edge_error = 0;
  Nanos stamp_error = 0;
  Nanos poll_gap_max = 0;
  std::vector<InitiatorFigures> initiators;
  std::vector<PagedHistogram> lateness;  // by slot; empty in closed loop

 private:
  std::vector<std::unique_ptr<KindRecorder>> recorders_;
  std::vector<KindRecorder*> table_;  // slot, kind, primary or other
};

// Pages a worker of this shape needs for `kSets` sets. `wanted`: no histogram can ever lack one. `least`: 12 octaves a
// histogram, where 8 to 11 are touched in practice; below that the phase is refused.
struct RecorderPages {
  size_t wanted = 0;
  size_t least = 0;
};
RecorderPages PagesFor(const RecorderShape& shape);

// Bounds an agent's recorders keep, pages and tables together.
inline constexpr size_t kRecorderBytesClosed = 100'000'000;
inline constexpr size_t kRecorderBytesOpen = 250'000'000;

// Page counts for workers of these shapes within the bound. Typed error RECORDER_MEMORY when not even `least` fits.
absl::StatusOr<std::vector<size_t>> BudgetPages(const std::vector<RecorderShape>& shapes);

// The exchange between one worker (writer) and the reporter: the worker publishes the full set and goes on with a
// clean one, the reporter reads, clears the touched pages and gives it back. Two SPSC rings, no lock. The pool is
// touched by the worker alone: pages stay with their recorder, and only recording takes new ones.
class IntervalRecorder {
 public:
  // One being written, one being read, two in hand: the reporter may be two intervals late.
  static constexpr int kSets = 4;

  IntervalRecorder(const RecorderShape& shape, size_t pages);

  // Worker thread.
  IntervalSet* TakeClean();        // nullptr: the reporter has them all
  void Publish(IntervalSet* set);  // never fails: the ring holds all sets
  // Reporter thread.
  IntervalSet* TakeFull();          // in the order published; nullptr: none
  void GiveBack(IntervalSet* set);  // clears it
  size_t Bytes() const { return bytes_; }

 private:
  PagePool pool_;
  std::vector<std::unique_ptr<IntervalSet>> sets_;
  SpscRing<IntervalSet*> full_;
  SpscRing<IntervalSet*> clean_;
  size_t bytes_ = 0;
};

}  // namespace muster
