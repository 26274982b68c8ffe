#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "common/base/clock.h"

namespace muster::agent {

// Oscillators drift apart by at most this much; it widens the bound of a probe with its age.
inline constexpr Nanos kDriftPpm = 100;
inline Nanos Widened(Nanos error, Nanos age) {
  return error + (age > 0 ? age / (1'000'000 / kDriftPpm) + 1 : 0);
}

// One estimate: fleet clock minus local clock, true within `error` at `taken` (local clock), widening from there.
struct ClockEstimate {
  Nanos offset = 0;
  Nanos error = 0;
  Nanos taken = 0;
  Nanos ErrorAt(Nanos local_now) const { return Widened(error, local_now - taken); }
  bool operator==(const ClockEstimate&) const = default;
};

// The clock rule (the on-wire form of NTP, RFC 5905 section 8): a probe leaves at t1, is received at t2
// and answered at t3 by the other clock, and is back at t4: offset = ((t2-t1)+(t3-t4))/2, error = ((t4-t1)-(t3-t2))/2.
// Whatever the two ways cost, the true offset lies within the error. Of the last 64 probes the one with the smallest
// error + age x 100 ppm is in use. Pure; not thread-safe.
class ClockEstimator {
 public:
  static constexpr size_t kKept = 64;

  // CLOCK_PROBE when the stamps contradict each other (a clock stepped back, or the message is wrong); nothing changes.
  absl::Status Add(Nanos t1, Nanos t2, Nanos t3, Nanos t4);
  // The probe in use at `local_now`; nothing before the first one.
  std::optional<ClockEstimate> Best(Nanos local_now) const;
  // Worst round trip of the probes kept, without the time at the other end; 0 before the first one.
  Nanos WorstRoundTrip() const;
  size_t size() const { return size_; }
  // Forgets everything: another controller has another clock.
  void Clear() { size_ = next_ = 0; }

 private:
  struct Probe {
    ClockEstimate estimate;
    Nanos round_trip = 0;
  };
  std::array<Probe, kKept> probes_{};
  size_t size_ = 0;
  size_t next_ = 0;
};

}  // namespace muster::agent
