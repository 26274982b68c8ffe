#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/stats/interval_recorder.h"
#include "common/stats/op_stats.h"

namespace muster {

// Adds `part` to `into`, exactly. HISTOGRAM_OVERFLOW or HISTOGRAM_CORRUPT; nothing is changed then.
absl::Status MergeHistogram(EncodedHistogram& into, const EncodedHistogram& part);

// Adds what another worker of the same agent says of the same interval. Histograms merge exactly; a worker that left
// wait and service out (all waits zero) is written out when the other one did not. time_full is the longest of any
// worker. HISTOGRAM_OVERFLOW or HISTOGRAM_CORRUPT when figures cannot be merged.
absl::Status MergeDelta(IntervalDelta& into, IntervalDelta&& part);

// Makes one IntervalDelta an interval out of the sets of several workers, in order. A set is encoded at once so that
// it can go back to its worker, however late another worker is.
//
// An interval counts as such only if every worker closed it; what single workers recorded in others (they stopped at
// different edges, or one was stuck) is folded into the drain, so that sums hold and no rate is made of a part.
// Intervals no worker ran in are a *gap* when the whole process was not running (NoteStop), otherwise the workers were
// held in system calls and the interval is empty. Pure; not thread-safe.
class IntervalCollector {
 public:
  // initiators[w][slot]: fleet-wide index of a worker's initiator slot.
  IntervalCollector(std::vector<std::vector<uint32_t>> initiators, std::vector<RecorderShape> shapes);

  // `set` may be cleared afterwards.
  absl::Status Add(size_t worker, const IntervalSet& set);
  // The process did not run in [begin, end), as witnessed by a thread that should have.
  void NoteStop(Nanos begin, Nanos end);
  // The next interval that every worker has closed.
  std::optional<IntervalDelta> Next();
  // After the last Add: the drain, with everything that is left.
  absl::StatusOr<IntervalDelta> Finish();

  int64_t last_interval() const { return next_ - 1; }
  // Sums over workers of the counters in the newest sets. `stuck` workers' missing operations count as abandoned.
  std::vector<InitiatorTotals> Totals(const std::vector<bool>& stuck) const;
  uint64_t BytesWritten() const;
  uint64_t lost() const { return lost_; }  // values no recorder had room for

 private:
  struct Entry {
    IntervalDelta delta;
    size_t closed = 0;
    bool ran = false;
    Nanos begin = 0;
    Nanos end = 0;
  };
  absl::StatusOr<IntervalDelta> ToDelta(size_t worker, const IntervalSet& set) const;
  bool Stopped(Nanos begin, Nanos end) const;
  static absl::Status Fold(Entry& into, Entry&& part);

  const std::vector<std::vector<uint32_t>> initiators_;
  const std::vector<RecorderShape> shapes_;
  std::map<int64_t, Entry> entries_;
  Entry drain_;
  int64_t next_ = 0;
  std::vector<std::vector<InitiatorFigures>> newest_;  // by worker
  std::deque<std::pair<Nanos, Nanos>> stops_;          // the last 64
  uint64_t lost_ = 0;
};

}  // namespace muster
