#include "agent/engine/pacer.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

namespace muster {
namespace {

std::vector<Nanos> Take(Pacer pacer, size_t count) {
  std::vector<Nanos> due;
  for (size_t i = 0; i < count; ++i, pacer.Advance()) due.push_back(pacer.Next());
  return due;
}

TEST_CASE("fixed: the rate is exact over any time, the phase is inside one period") {
  for (const double rate : {1.0, 3.0, 1000.0, 333.333, 1e6}) {
    const Nanos t0 = 5 * kSecond;
    Pacer pacer(Pacing::kFixed, rate, 42, t0);
    const double period = 1e9 / rate;
    CHECK(pacer.Next() >= t0);
    CHECK(static_cast<double>(pacer.Next() - t0) < period);
    const Nanos first = pacer.Next();
    for (int i = 0; i < 100'000; ++i) pacer.Advance();
    // Within a nanosecond of rounding after 100,000 operations: nothing adds up.
    CHECK(std::abs(static_cast<double>(pacer.Next() - first) - period * 100'000) <= 2.0);
  }
}

TEST_CASE("fixed: phases of streams are spread evenly") {
  const int streams = 2000;
  double sum = 0;
  for (uint64_t i = 0; i < streams; ++i) {
    sum += static_cast<double>(Pacer(Pacing::kFixed, 1000, MixSeed(7, i), 0).Next()) / 1e6;
  }
  // Mean of 2,000 uniform draws: 0.5 with a deviation of 0.0065; five of them.
  CHECK(sum / streams == Approx(0.5).margin(0.033));
}

TEST_CASE("poisson: mean and variance of the gaps are those of the exponential") {
  const int n = 200'000;
  const double mean = 1e9 / 50'000;
  Pacer pacer(Pacing::kPoisson, 50'000, 99, 0);
  double sum = 0;
  double squares = 0;
  Nanos before = 0;
  for (int i = 0; i < n; ++i, pacer.Advance()) {
    const auto gap = static_cast<double>(pacer.Next() - before);
    CHECK_FALSE(gap < 0);
    before = pacer.Next();
    sum += gap;
    squares += gap * gap;
  }
  const double got = sum / n;
  CHECK(got == Approx(mean).epsilon(0.012));  // five standard errors
  const double variance = squares / n - got * got;
  CHECK(variance == Approx(mean * mean).epsilon(0.04));
}

TEST_CASE("poisson: counts of intervals have variance equal to their mean") {
  Pacer pacer(Pacing::kPoisson, 10'000, 5, 0);
  const int intervals = 2000;
  double sum = 0;
  double squares = 0;
  for (int k = 1; k <= intervals; ++k) {
    double count = 0;
    for (; pacer.Next() < k * 10 * kMillisecond; pacer.Advance()) ++count;
    sum += count;
    squares += count * count;
  }
  const double mean = sum / intervals;
  CHECK(mean == Approx(100).epsilon(0.012));
  CHECK((squares / intervals - mean * mean) / mean == Approx(1).epsilon(0.16));  // five standard errors
}

TEST_CASE("a schedule is a function of its seed, and a copy continues it") {
  for (const Pacing pacing : {Pacing::kFixed, Pacing::kPoisson}) {
    const auto a = Take(Pacer(pacing, 1234, 8, 100), 1000);
    CHECK(a == Take(Pacer(pacing, 1234, 8, 100), 1000));
    CHECK(a != Take(Pacer(pacing, 1234, 9, 100), 1000));
    Pacer pacer(pacing, 1234, 8, 100);
    for (int i = 0; i < 500; ++i) pacer.Advance();
    const Pacer copy = pacer;
    for (int i = 0; i < 500; ++i) pacer.Advance();
    CHECK(Take(copy, 500) == std::vector<Nanos>(a.begin() + 500, a.end()));
  }
}

TEST_CASE("moving the start moves every arrival by as much") {
  for (const Pacing pacing : {Pacing::kClosed, Pacing::kFixed, Pacing::kPoisson}) {
    Pacer moved(pacing, 1000, 3, 0);
    moved.StartAt(77 * kSecond);
    CHECK(Take(moved, 100) == Take(Pacer(pacing, 1000, 3, 77 * kSecond), 100));
  }
}

TEST_CASE("closed: always due") {
  Pacer pacer(Pacing::kClosed, 0, 1, 9);
  for (int i = 0; i < 3; ++i, pacer.Advance()) CHECK(pacer.Next() == 9);
}

TEST_CASE("rates are split over what they are given for") {
  Workload work;
  work.rate = 1200;
  work.load.streams = 4;
  work.rate_per = RatePer::kStream;
  CHECK(StreamRate(work, 3) == 1200);
  work.rate_per = RatePer::kInitiator;
  CHECK(StreamRate(work, 3) == 300);
  work.rate_per = RatePer::kFleet;
  CHECK(StreamRate(work, 3) == 100);
}

}  // namespace
}  // namespace muster
