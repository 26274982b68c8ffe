#pragma once
#include <array>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/stats/op_stats.h"
#include "common/stats/paged_recorder.h"

namespace muster {

// Operations of one kind, initiator and cohort in one interval. One writer; then read by another thread after a
// hand-over.
//
// An operation whose wait is zero goes to one histogram only, because its service equals its response; the others go
// to three. ToDelta puts both together: response = both, service = the first's response and the others' service,
// wait = that many zeros and the others' waits. In closed loop the wait is zero unless the backend was full, so that
// mode pays for one histogram and stays exact when it becomes full.
class KindRecorder {
 public:
  explicit KindRecorder(PagePool* pool) : prompt_(pool), response_(pool), wait_(pool), service_(pool) {}

  // Times in ns, response >= wait.
  void RecordOk(uint64_t response, uint64_t wait, uint64_t bytes) {
    bytes_ += bytes;
    if (wait == 0) {
      prompt_.Record(response);
      return;
    }
    response_.Record(response);
    wait_.Record(wait);
    service_.Record(response - wait);
  }
  // Failures and operations that never ended are rare: their histograms are allocated when first needed.
  void RecordFailure(Outcome outcome, int32_t native_code, uint64_t response);
  void RecordUnfinished(uint64_t age);

  bool empty() const { return prompt_.empty() && response_.empty() && !rare_used_; }
  uint64_t lost() const { return prompt_.lost() + response_.lost() + wait_.lost() + service_.lost(); }
  // wait and service are left out while every wait was zero, unless `always_full`. HISTOGRAM_OVERFLOW when sums would
  // wrap.
  absl::StatusOr<KindDelta> ToDelta(OpKind kind, bool due_in_window, bool always_full) const;
  void Clear();

 private:
  struct Rare {
    struct Failures {
      int32_t native_code = 0;
      Histogram response;
    };
    Histogram unfinished;
    std::array<Failures, kOutcomes> failures;
  };
  Rare& GetRare();

  PagedHistogram prompt_;  // wait zero
  PagedHistogram response_;
  PagedHistogram wait_;
  PagedHistogram service_;
  uint64_t bytes_ = 0;
  bool rare_used_ = false;
  std::unique_ptr<Rare> rare_;
};

}  // namespace muster
