#include "agent/session/clock_estimator.h"

#include <catch2/catch.hpp>

#include "common/base/rng.h"
#include "common/base/status.h"

namespace muster::agent {
namespace {

Nanos Abs(Nanos v) {
  return v < 0 ? -v : v;
}

TEST_CASE("the formulas on a symmetric and an asymmetric way") {
  ClockEstimator clock;
  // Fleet 1000 ahead, 10 there, 5 at the other end, 10 back.
  REQUIRE(clock.Add(0, 1010, 1015, 25).ok());
  CHECK(clock.Best(25)->offset == 1000);
  CHECK(clock.Best(25)->error >= 10);
  CHECK(clock.Best(25)->error <= 12);
  CHECK(clock.Best(25)->taken == 25);
  CHECK(clock.WorstRoundTrip() == 20);
  // All of the delay on one way: off by half of it, and the error says so.
  ClockEstimator skewed;
  REQUIRE(skewed.Add(0, 1000, 1000, 40).ok());
  CHECK(skewed.Best(40)->offset == 980);
  CHECK(skewed.Best(40)->error >= 20);
}

TEST_CASE("impossible stamps are refused and change nothing") {
  ClockEstimator clock;
  REQUIRE(clock.Add(0, 5, 6, 10).ok());
  const auto before = clock.Best(10);
  CHECK(GetErrorInfo(clock.Add(10, 5, 6, 9)).code == "CLOCK_PROBE");    // back before it left
  CHECK(GetErrorInfo(clock.Add(0, 6, 5, 10)).code == "CLOCK_PROBE");    // answered before it came
  CHECK(GetErrorInfo(clock.Add(0, 0, 100, 10)).code == "CLOCK_PROBE");  // longer there than away
  CHECK(GetErrorInfo(clock.Add(INT64_MIN, INT64_MAX, INT64_MAX, INT64_MAX)).code == "CLOCK_PROBE");
  CHECK(clock.size() == 1);
  CHECK(clock.Best(10) == before);
}

TEST_CASE("the best probe wins until its age outweighs it") {
  ClockEstimator clock;
  REQUIRE(clock.Add(0, 0, 0, 200).ok());  // error 100
  REQUIRE(clock.Add(kSecond, kSecond, kSecond, kSecond + 1'000'000).ok());
  CHECK(clock.Best(kSecond + 1'000'000)->taken == 200);
  // 100 ppm of 10 s is 1 ms: a fresh probe of 0.5 ms is better by then.
  const Nanos later = 10 * kSecond;
  REQUIRE(clock.Add(later, later, later, later + 1'000'000).ok());
  CHECK(clock.Best(later + 1'000'000)->taken == later + 1'000'000);
}

TEST_CASE("only the last 64 are kept") {
  ClockEstimator clock;
  REQUIRE(clock.Add(0, 0, 0, 10).ok());
  for (int i = 1; i <= 64; ++i) REQUIRE(clock.Add(i * 1'000, i * 1'000, i * 1'000, i * 1'000 + 500).ok());
  CHECK(clock.size() == 64);
  CHECK(clock.Best(65'000)->error >= 250);
}

// The promise: whatever the delays of both ways and whatever the drift within 100 ppm, the true offset lies within the
// stated error, at every instant between probes too.
TEST_CASE("the bound always holds under asymmetric delays and drift") {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    Rng rng(seed);
    ClockEstimator clock;
    const double ppm = (rng.Unit() * 2 - 1) * 99.0;  // of the agent's clock against the fleet's
    const Nanos start = static_cast<Nanos>(rng.Below(1'000) * kSecond);
    const Nanos apart = static_cast<Nanos>(rng.Below(1'000'000)) * kMillisecond;
    // Local reading at fleet time t.
    const auto local = [&](Nanos t) {
      return t - apart + static_cast<Nanos>(static_cast<double>(t - start) * ppm * 1e-6);
    };
    Nanos t = start;
    double tightest = 1e18;
    for (int beat = 0; beat < 200; ++beat) {
      const Nanos there = 20'000 + static_cast<Nanos>(rng.Exponential(rng.Below(4) == 0 ? 5e6 : 5e4));
      const Nanos inside = static_cast<Nanos>(rng.Exponential(2e4));
      const Nanos back = 20'000 + static_cast<Nanos>(rng.Exponential(rng.Below(8) == 0 ? 2e7 : 5e4));
      const Nanos t1 = local(t);
      const Nanos t2 = t + there;
      const Nanos t3 = t2 + inside;
      const Nanos t4 = local(t3 + back);
      REQUIRE(clock.Add(t1, t2, t3, t4).ok());
      t = t3 + back + static_cast<Nanos>(rng.Below(2 * kSecond));
      const auto best = clock.Best(local(t));
      const Nanos truth = t - local(t);
      // The rounding of `local` itself: 1 ns.
      REQUIRE(Abs(best->offset - truth) <= best->ErrorAt(local(t)) + 1);
      tightest = std::min(tightest, static_cast<double>(best->ErrorAt(local(t))));
    }
    CHECK(tightest < 1e6);  // and it is worth something
  }
}

TEST_CASE("agents of one host measure 0 within their error") {
  Rng rng(7);
  ClockEstimator clock;
  Nanos t = kHour;
  for (int i = 0; i < 100; ++i) {
    const Nanos there = static_cast<Nanos>(rng.Exponential(3e4));
    const Nanos back = static_cast<Nanos>(rng.Exponential(3e4));
    REQUIRE(clock.Add(t, t + there, t + there + 500, t + there + 500 + back).ok());
    t += kSecond;
    const auto best = clock.Best(t);
    REQUIRE(Abs(best->offset) <= best->ErrorAt(t));
  }
}

}  // namespace
}  // namespace muster::agent
