#include "agent/session/clock_estimator.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/status.h"

namespace muster::agent {
namespace {

// Stamps beyond this are no CLOCK_MONOTONIC reading; below it no difference of two differences can wrap.
constexpr Nanos kStampMax = INT64_MAX / 8;
bool Plausible(Nanos stamp) {
  return stamp >= -kStampMax && stamp <= kStampMax;
}

}  // namespace

absl::Status ClockEstimator::Add(Nanos t1, Nanos t2, Nanos t3, Nanos t4) {
  const bool plausible = Plausible(t1) && Plausible(t2) && Plausible(t3) && Plausible(t4);
  if (!plausible || t4 < t1 || t3 < t2 || (t4 - t1) < (t3 - t2)) {
    return MakeError(absl::StatusCode::kInvalidArgument,
                     {.code = "CLOCK_PROBE",
                      .place = "BeatReply",
                      .message = fmt::format("stamps {} {} {} {} contradict each other", t1, t2, t3, t4),
                      .next = "A clock stepped back; both ends must use CLOCK_MONOTONIC."});
  }
  const Nanos round_trip = (t4 - t1) - (t3 - t2);
  Probe& probe = probes_[next_];
  // Halves are rounded: one nanosecond more keeps the bound true.
  probe.estimate = {.offset = ((t2 - t1) + (t3 - t4)) / 2, .error = (round_trip + 1) / 2 + 1, .taken = t4};
  probe.round_trip = round_trip;
  next_ = (next_ + 1) % kKept;
  size_ = std::min(size_ + 1, kKept);
  return absl::OkStatus();
}

std::optional<ClockEstimate> ClockEstimator::Best(Nanos local_now) const {
  std::optional<ClockEstimate> best;
  for (size_t i = 0; i < size_; ++i) {
    const ClockEstimate& estimate = probes_[i].estimate;
    if (!best || estimate.ErrorAt(local_now) < best->ErrorAt(local_now)) best = estimate;
  }
  return best;
}

Nanos ClockEstimator::WorstRoundTrip() const {
  Nanos worst = 0;
  for (size_t i = 0; i < size_; ++i) worst = std::max(worst, probes_[i].round_trip);
  return worst;
}

}  // namespace muster::agent
