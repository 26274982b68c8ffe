#include "controller/aggregate/latencies.h"

#include <algorithm>

namespace muster {

absl::Status Latencies::SpellOut() {
  if (explicit_) return absl::OkStatus();
  explicit_ = true;
  service_ = response_;
  return wait_.RecordMany(0, response_.count());
}

absl::Status Latencies::Add(const KindDelta& delta) {
  if (HasExplicitWait(delta)) {
    MUSTER_RETURN_IF_ERROR(SpellOut());
    MUSTER_RETURN_IF_ERROR(wait_.Merge(delta.wait));
    MUSTER_RETURN_IF_ERROR(service_.Merge(delta.service));
  } else if (explicit_ && delta.response.moments.count != 0) {
    MUSTER_RETURN_IF_ERROR(wait_.RecordMany(0, delta.response.moments.count));
    MUSTER_RETURN_IF_ERROR(service_.Merge(delta.response));
  }
  return response_.Merge(delta.response);
}

absl::Status Latencies::AddUnfinished(const EncodedHistogram& ages) {
  return unfinished_.Merge(ages);
}

absl::Status Latencies::Merge(const Latencies& other) {
  if (other.explicit_) MUSTER_RETURN_IF_ERROR(SpellOut());
  if (explicit_) {
    if (other.explicit_) {
      MUSTER_RETURN_IF_ERROR(wait_.Merge(other.wait_));
      MUSTER_RETURN_IF_ERROR(service_.Merge(other.service_));
    } else if (other.response_.count() != 0) {
      MUSTER_RETURN_IF_ERROR(wait_.RecordMany(0, other.response_.count()));
      MUSTER_RETURN_IF_ERROR(service_.Merge(other.response_));
    }
  }
  MUSTER_RETURN_IF_ERROR(response_.Merge(other.response_));
  return unfinished_.Merge(other.unfinished_);
}

absl::Status Latencies::WriteTo(KindFigures& figures) const {
  figures.response = response_;
  if (explicit_) {
    figures.wait = wait_;
    figures.service = service_;
  } else {
    figures.wait.Clear();
    MUSTER_RETURN_IF_ERROR(figures.wait.RecordMany(0, response_.count()));
    figures.service = response_;
  }
  MUSTER_RETURN_IF_ERROR(figures.response.Merge(unfinished_));
  figures.response_max = std::max(figures.response_max, figures.response.moments().max);
  return absl::OkStatus();
}

bool Latencies::operator==(const Latencies& other) const {
  if (explicit_ != other.explicit_) {
    Latencies a = *this;
    Latencies b = other;
    return a.SpellOut().ok() && b.SpellOut().ok() && a == b;
  }
  return response_ == other.response_ && wait_ == other.wait_ && service_ == other.service_ &&
         unfinished_ == other.unfinished_;
}

void KindCounters::Add(const KindDelta& delta) {
  completed += delta.completed;
  bytes += delta.bytes;
  for (const ErrorDelta& error : delta.errors) failed += error.count;
}

void KindCounters::Add(const KindCounters& other) {
  completed += other.completed;
  bytes += other.bytes;
  failed += other.failed;
}

}  // namespace muster
