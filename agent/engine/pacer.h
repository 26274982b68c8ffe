#pragma once
#include <cstdint>

#include "common/base/clock.h"
#include "common/base/rng.h"
#include "common/plan/plan.h"

namespace muster {

// When the operations of one stream are due. Arrivals are computed from the seed and never queued: a stalled stream
// keeps this one cursor, so a stall costs no memory. A value type: a copy continues the same
// arrivals, which is how the engine counts what is due (one cursor) and issues it (another). Not thread-safe.
//
//   fixed    arrival n at t0 + (phase + n) * period, phase uniform in [0, 1) from the seed; n * period is computed
//            anew for every n, so nothing drifts.
//   poisson  gaps are exponential with mean period.
//   closed   no schedule: Next is t0 for ever (an operation is due when its stream offers it).
class Pacer {
 public:
  // `rate` in operations per second of this stream (> 0; ignored for closed).
  Pacer(Pacing pacing, double rate, uint64_t seed, Nanos t0);

  // Moves the whole schedule to begin at `t0`; only before the first Advance.
  void StartAt(Nanos t0) {
    next_ += t0 - t0_;
    t0_ = t0;
  }
  // Instant of the arrival under the cursor; never steps back.
  Nanos Next() const { return next_; }
  void Advance() {
    if (pacing_ == Pacing::kClosed) return;
    if (pacing_ == Pacing::kFixed) {
      at_ = period_ * (phase_ + static_cast<double>(++count_));
    } else {
      at_ += rng_.Exponential(period_);
    }
    next_ = t0_ + static_cast<Nanos>(at_);
  }

 private:
  Pacing pacing_;
  double period_;  // ns
  double phase_;   // share of a period
  double at_ = 0;  // ns since t0; a double keeps nanoseconds exact for 104 days
  uint64_t count_ = 0;
  Nanos t0_;
  Nanos next_;
  Rng rng_;
};

// Operations per second of one stream, when `rate` is meant per fleet, initiator or stream.
double StreamRate(const Workload& workload, uint32_t initiators);

}  // namespace muster
