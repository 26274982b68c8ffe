#include "controller/fleet/clock_figures.h"

#include <algorithm>

namespace muster {

void ClockFigures::OnBeat(const BeatInfo& beat, Nanos t2, Nanos t3) {
  // Round trips that an agent states are bounded: an hour would only be a broken or hostile figure.
  stated_round_trip_ = std::clamp<Nanos>(beat.round_trip, 0, kMinute);
  if (beat.previous_t4 != 0) {
    const Pending& sent = pending_[beat.previous_seq % kProbes];
    if (sent.seq == beat.previous_seq && sent.t2 != 0) {
      const Nanos round_trip = (beat.previous_t4 - sent.t1) - (sent.t3 - sent.t2);
      // A negative round trip contradicts itself: the probe proves nothing.
      if (round_trip >= 0 && round_trip <= kMinute) {
        Probe& probe = probes_[probe_count_++ % kProbes];
        probe.offset = ((sent.t2 - sent.t1) + (sent.t3 - beat.previous_t4)) / 2;
        probe.error = (round_trip + 1) / 2;
        probe.round_trip = round_trip;
        probe.taken = sent.t3;
      }
    }
  }
  pending_[beat.seq % kProbes] = {.seq = beat.seq, .t1 = beat.t1, .t2 = t2, .t3 = t3};
}

ClockReading ClockFigures::At(Nanos now) const {
  ClockReading reading;
  reading.round_trip = stated_round_trip_;
  const size_t count = std::min<uint64_t>(probe_count_, kProbes);
  for (size_t i = 0; i < count; ++i) {
    const Probe& probe = probes_[i];
    const Nanos error = WidenedError(probe.error, now - probe.taken);
    reading.round_trip = std::max(reading.round_trip, probe.round_trip);
    if (error < reading.error) {
      reading.error = error;
      reading.offset = probe.offset;
    }
  }
  return reading;
}

}  // namespace muster
