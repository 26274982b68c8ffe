#include "controller/fleet/clock_figures.h"

#include <catch2/catch.hpp>

namespace muster {
namespace {

// One probe: Beat `seq` leaves the agent at `t1` (its clock), takes `out` to the controller, is answered after `hold`,
// and the answer takes `back`. offset = fleet minus agent. Completed by the next Beat.
void Probe(ClockFigures& clock, uint64_t seq, Nanos t1, Nanos offset, Nanos out, Nanos hold, Nanos back) {
  const Nanos t2 = t1 + offset + out;
  const Nanos t3 = t2 + hold;
  clock.OnBeat({.seq = seq, .t1 = t1}, t2, t3);
  const Nanos t4 = t3 + back - offset;
  clock.OnBeat({.seq = seq + 1, .t1 = t4, .previous_seq = seq, .previous_t4 = t4}, t4 + offset + out,
               t4 + offset + out);
}

TEST_CASE("nothing is known before the first probe is complete") {
  ClockFigures clock;
  clock.OnBeat({.seq = 1, .t1 = 5}, 10, 11);
  CHECK(clock.At(20).error == kNever);
}

TEST_CASE("offset and error are NTP's") {
  ClockFigures clock;
  Probe(clock, 1, 1'000'000, 500 * kSecond, 300, 50, 100);
  const ClockReading reading = clock.At(500 * kSecond + 1'000'350);
  CHECK(reading.offset == 500 * kSecond + 100);  // half the asymmetry
  CHECK(reading.error == 200);                   // half the round trip without the hold: covers the asymmetry
  CHECK(reading.round_trip == 400);
}

TEST_CASE("the best probe is used, an old one widens by 100 ppm until a newer one is better") {
  ClockFigures clock;
  Probe(clock, 1, 0, 0, 1'000, 0, 1'000);  // error 1,000 ns
  CHECK(clock.At(10 * kSecond + 1'000).error == 1'000 + 1'000'000);
  Probe(clock, 3, 10 * kSecond, 0, 200'000, 0, 200'000);  // error 200,000 ns, but fresh
  CHECK(clock.At(10 * kSecond + 200'000).error == 200'000);
  CHECK(clock.At(10 * kSecond).round_trip == 400'000);  // the worst of those kept
}

TEST_CASE("only the last 64 probes count") {
  ClockFigures clock;
  Probe(clock, 1, 0, 0, 1 * kSecond, 0, 1 * kSecond);
  Nanos at = 10 * kSecond;
  for (uint64_t i = 0; i < 64; ++i, at += kMillisecond) Probe(clock, 3 + 2 * i, at, 0, 500, 0, 500);
  CHECK(clock.At(at).round_trip == 1'000);
}

TEST_CASE("impossible probes and answers to Beats never sent prove nothing") {
  ClockFigures clock;
  clock.OnBeat({.seq = 1, .t1 = 1'000}, 2'000, 9'000);
  clock.OnBeat({.seq = 2, .t1 = 3'000, .previous_seq = 1, .previous_t4 = 1'500}, 10'000,
               10'000);  // back before it left
  clock.OnBeat({.seq = 3, .t1 = 3'000, .previous_seq = 40, .previous_t4 = 9'000}, 10'000, 10'000);
  CHECK(clock.At(10'000).error == kNever);
  clock.OnBeat({.seq = 4, .t1 = 1, .round_trip = 500 * kHour}, 10'000, 10'000);
  CHECK(clock.At(10'000).round_trip <= kMinute);  // what an agent states is bounded
}

}  // namespace
}  // namespace muster
