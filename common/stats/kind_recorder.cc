#include "common/stats/kind_recorder.h"

#include "common/base/status.h"

namespace muster {

void KindRecorder::RecordFailure(Outcome outcome, int32_t native_code, uint64_t response) {
  Rare::Failures& failures = GetRare().failures[static_cast<size_t>(outcome)];
  if (failures.response.count() == 0) failures.native_code = native_code;
  failures.response.Record(response);
}

void KindRecorder::RecordUnfinished(uint64_t age) {
  GetRare().unfinished.Record(age);
}

KindRecorder::Rare& KindRecorder::GetRare() {
  if (rare_ == nullptr) rare_ = std::make_unique<Rare>();
  rare_used_ = true;
  return *rare_;
}

void KindRecorder::Clear() {
  for (PagedHistogram* histogram : {&prompt_, &response_, &wait_, &service_}) histogram->Clear();
  bytes_ = 0;
  if (!rare_used_) return;
  rare_used_ = false;
  rare_->unfinished.Clear();
  for (Rare::Failures& failures : rare_->failures) {
    failures.native_code = 0;
    failures.response.Clear();
  }
}

absl::StatusOr<KindDelta> KindRecorder::ToDelta(OpKind kind, bool due_in_window, bool always_full) const {
  // Straight from the pages when only one of the two has values.
  const auto sum_of = [](const PagedHistogram& a, const PagedHistogram& b) -> absl::StatusOr<EncodedHistogram> {
    if (b.empty()) return a.Encode();
    if (a.empty()) return b.Encode();
    Histogram sum;
    MUSTER_RETURN_IF_ERROR(a.AddTo(sum));
    MUSTER_RETURN_IF_ERROR(b.AddTo(sum));
    return sum.Encode();
  };

  KindDelta delta;
  delta.kind = kind;
  delta.due_in_window = due_in_window;
  delta.completed = prompt_.moments().count + response_.moments().count;
  delta.bytes = bytes_;
  MUSTER_ASSIGN_OR_RETURN(delta.response, sum_of(prompt_, response_));
  if (!wait_.empty() || (always_full && !prompt_.empty())) {
    MUSTER_ASSIGN_OR_RETURN(delta.service, sum_of(prompt_, service_));
    Histogram waits;
    MUSTER_RETURN_IF_ERROR(wait_.AddTo(waits));
    if (!prompt_.empty()) MUSTER_RETURN_IF_ERROR(waits.RecordMany(0, prompt_.moments().count));
    delta.wait = waits.Encode();
  }
  if (!rare_used_) return delta;
  if (rare_->unfinished.count() > 0) delta.unfinished = rare_->unfinished.Encode();
  for (int i = 0; i < kOutcomes; ++i) {
    const Rare::Failures& failures = rare_->failures[i];
    if (failures.response.count() == 0) continue;
    delta.errors.push_back({.outcome = static_cast<Outcome>(i),
                            .native_code = failures.native_code,
                            .count = failures.response.count(),
                            .response = failures.response.Encode()});
  }
  return delta;
}

}  // namespace muster
