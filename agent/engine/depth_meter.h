#pragma once
#include <cstdint>

#include "common/base/clock.h"
#include "common/stats/moments.h"

namespace muster {

// Time integrals of two operation counts, exact: advanced to the instant of every change before the change is made.
// To(t) with t before the last instant is not allowed.
struct DepthMeter {
  uint64_t offered = 0;  // due and not done
  uint64_t wire = 0;     // accepted by the backend and not done
  Nanos last = 0;
  Uint128 offered_integral = 0;  // operation-nanoseconds since Restart
  Uint128 wire_integral = 0;

  void To(Nanos t) {
    const auto elapsed = static_cast<uint64_t>(t - last);
    if (elapsed == 0) return;
    offered_integral += static_cast<Uint128>(offered) * elapsed;
    wire_integral += static_cast<Uint128>(wire) * elapsed;
    last = t;
  }
  void Restart() { offered_integral = wire_integral = 0; }
};

}  // namespace muster
