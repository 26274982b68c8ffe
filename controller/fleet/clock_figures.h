#pragma once
#include <array>
#include <cstdint>

#include "controller/fleet/agent_messages.h"

namespace muster {

// Clock probes of one agent as the controller sees them. offset = ((t2-t1)+(t3-t4))/2, error = ((t4-t1)-(t3-t2))/2
// (NTP's on-wire formulas, RFC 5905 section 8); the probe in use minimises error + age x 100 ppm over the last 64
// probes. Independent of the agent's own estimate: both are kept, the larger bound counts. Not thread-safe.
class ClockFigures {
 public:
  // A Beat arrived (t2) and was answered (t3), controller clock. Completes the probe that its t4 belongs to.
  void OnBeat(const BeatInfo& beat, Nanos t2, Nanos t3);
  // The estimate in use at `now` (controller clock), its bound widened by its age.
  ClockReading At(Nanos now) const;

 private:
  struct Pending {
    uint64_t seq = 0;
    Nanos t1 = 0, t2 = 0, t3 = 0;
  };
  struct Probe {
    Nanos offset = 0, error = 0, round_trip = 0, taken = 0;
  };
  static constexpr size_t kProbes = 64;

  std::array<Pending, kProbes> pending_{};  // by seq % 64
  std::array<Probe, kProbes> probes_{};
  uint64_t probe_count_ = 0;
  Nanos stated_round_trip_ = 0;  // by the agent
};

// Bound of an estimate `age` old: widened by 100 ppm.
inline Nanos WidenedError(Nanos error, Nanos age) {
  return error + (age > 0 ? age / 10'000 : 0);
}

// Two agents of one boot id and time namespace read one clock: their offsets must be equal within their bounds.
inline bool ClocksAgree(const ClockReading& a, const ClockReading& b) {
  if (a.error >= kNever || b.error >= kNever) return true;  // nothing known yet
  const Nanos apart = a.offset > b.offset ? a.offset - b.offset : b.offset - a.offset;
  return apart <= a.error + b.error;
}

}  // namespace muster
