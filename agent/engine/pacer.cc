#include "agent/engine/pacer.h"

namespace muster {

Pacer::Pacer(Pacing pacing, double rate, uint64_t seed, Nanos t0)
    : pacing_(pacing),
      period_(pacing == Pacing::kClosed ? 0 : static_cast<double>(kSecond) / rate),
      phase_(0),
      t0_(t0),
      next_(t0),
      rng_(seed) {
  switch (pacing_) {
    case Pacing::kClosed:
      return;
    case Pacing::kFixed:
      phase_ = rng_.Unit();
      at_ = period_ * phase_;
      break;
    case Pacing::kPoisson:
      at_ = rng_.Exponential(period_);
      break;
  }
  next_ = t0_ + static_cast<Nanos>(at_);
}

double StreamRate(const Workload& workload, uint32_t initiators) {
  switch (workload.rate_per) {
    case RatePer::kStream:
      return workload.rate;
    case RatePer::kInitiator:
      return workload.rate / workload.load.streams;
    case RatePer::kFleet:
      return workload.rate / workload.load.streams / initiators;
  }
  return 0;
}

}  // namespace muster
