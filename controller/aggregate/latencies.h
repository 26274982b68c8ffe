#pragma once
#include "absl/status/status.h"
#include "common/base/status.h"
#include "common/stats/op_stats.h"
#include "controller/aggregate/figures.h"

namespace muster {

// Response, wait and service of one set of operations of one kind. Merging is exact and associative, so any order and
// any grouping of the same operations gives the same bits. Closed loop without waits keeps one histogram, not three:
// wait and service are spelled out when the first explicit ones come, or at the end. Value type, not thread-safe.
// Errors are those of Histogram (HISTOGRAM_CORRUPT, HISTOGRAM_OVERFLOW); the set is then in an undefined state, so
// callers add to a scratch set first.
class Latencies {
 public:
  // Operations that ended well.
  absl::Status Add(const KindDelta& delta);
  // Ages of operations that never ended: they count for response alone, nobody knows their wait and service.
  absl::Status AddUnfinished(const EncodedHistogram& ages);
  absl::Status Merge(const Latencies& other);
  // Fills response (unfinished included), wait, service and response_max.
  absl::Status WriteTo(KindFigures& figures) const;

  const Histogram& response() const { return response_; }  // without unfinished
  bool empty() const { return response_.count() == 0 && unfinished_.count() == 0; }
  bool operator==(const Latencies& other) const;

 private:
  absl::Status SpellOut();

  Histogram response_, wait_, service_, unfinished_;
  bool explicit_ = false;  // wait_ and service_ hold every operation of response_
};

// What counts for rates: membership is by interval of `done` in both modes.
struct KindCounters {
  uint64_t completed = 0, bytes = 0, failed = 0;
  void Add(const KindDelta& delta);
  void Add(const KindCounters& other);
  bool operator==(const KindCounters&) const = default;
};

// Whether `wait` is spelled out in a delta (left out in closed loop while every wait was zero).
inline bool HasExplicitWait(const KindDelta& delta) {
  return delta.wait.moments.count != 0 || delta.service.moments.count != 0;
}

}  // namespace muster
