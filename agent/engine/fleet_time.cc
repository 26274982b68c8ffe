#include <thread>

#include "agent/engine/engine.h"

namespace muster {

// A sequence lock whose payload is atomic itself: odd versions are being written. Readers retry; one writer.
void FleetTime::Set(const Estimate& estimate) {
  const uint32_t version = version_.load(std::memory_order_relaxed);
  version_.store(version + 1, std::memory_order_relaxed);  // seen by whoever sees any of the release stores below
  offset_.store(estimate.offset, std::memory_order_release);
  error_.store(estimate.error, std::memory_order_release);
  taken_.store(estimate.taken, std::memory_order_release);
  version_.store(version + 2, std::memory_order_release);
}

FleetTime::Estimate FleetTime::Get() const {
  for (;;) {  // the writer is inside for a few stores; a reader that meets it twice lets it run
    const uint32_t before = version_.load(std::memory_order_acquire);
    Estimate estimate{.offset = offset_.load(std::memory_order_acquire),
                      .error = error_.load(std::memory_order_acquire),
                      .taken = taken_.load(std::memory_order_acquire)};
    const uint32_t after = version_.load(std::memory_order_acquire);
    if (before == after && before % 2 == 0) return estimate;
    std::this_thread::yield();
  }
}

Nanos FleetTime::ErrorAt(Nanos local_now) const {
  const Estimate estimate = Get();
  const Nanos age = local_now > estimate.taken ? local_now - estimate.taken : 0;
  return estimate.error + age / 10'000;  // 100 ppm
}

}  // namespace muster
