#include "common/base/clock.h"

#include <time.h>

namespace muster {

Nanos SteadyClock::Now() const {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return static_cast<Nanos>(ts.tv_sec) * kSecond + ts.tv_nsec;
}

SteadyClock& SteadyClock::Get() {
  // Never destroyed: other static objects may read the time while the process exits.
  static SteadyClock& clock = *new SteadyClock;
  return clock;
}

int64_t WallMicros() {
  timespec ts;
  clock_gettime(CLOCK_REALTIME, &ts);
  return static_cast<int64_t>(ts.tv_sec) * 1'000'000 + ts.tv_nsec / 1'000;
}

}  // namespace muster
