#include "common/base/rng.h"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

namespace muster {
namespace {

TEST_CASE("splitmix64 gives the published sequence", "[rng]") {
  uint64_t state = 1234567;
  const uint64_t expected[] = {6457827717110365317u, 3203168211198807973u, 9817491932198370423u, 4593380528125082431u,
                               16408922859458223821u};
  for (const uint64_t value : expected) CHECK(SplitMix64(state) == value);
}

TEST_CASE("xoshiro256** seeded by splitmix64 gives the published sequence", "[rng]") {
  Rng zero(0);
  const uint64_t expected[] = {11091344671253066420u, 13793997310169335082u, 1900383378846508768u,
                               7684712102626143532u,  13521403990117723737u, 18442103541295991498u,
                               7788427924976520344u,  9881088229871127103u};
  for (const uint64_t value : expected) CHECK(zero.Next() == value);
  Rng other(42);
  CHECK(other.Next() == 1546998764402558742u);
  CHECK(other.Next() == 6990951692964543102u);
}

TEST_CASE("a copy continues the same sequence", "[rng]") {
  Rng a(3);
  for (int i = 0; i < 10; ++i) a.Next();
  Rng b = a;
  for (int i = 0; i < 100; ++i) REQUIRE(a.Next() == b.Next());
}

TEST_CASE("bounded draws stay inside and are even", "[rng]") {
  Rng rng(5);
  for (const uint64_t bound : {uint64_t{1}, uint64_t{3}, uint64_t{1} << 40, UINT64_MAX}) {
    for (int i = 0; i < 1'000; ++i) REQUIRE(rng.Below(bound) < bound);
  }
  // Chi-square over 16 cells, 15 degrees of freedom: beyond 50 has a probability below 2e-5, and the seed is fixed.
  std::array<int, 16> cells{};
  constexpr int kDraws = 160'000;
  for (int i = 0; i < kDraws; ++i) ++cells[rng.Below(16)];
  double chi = 0;
  for (const int cell : cells) chi += (cell - kDraws / 16.0) * (cell - kDraws / 16.0) / (kDraws / 16.0);
  CHECK(chi < 50);
}

TEST_CASE("unit and exponential draws", "[rng]") {
  Rng rng(9);
  double unit_sum = 0;
  double exponential_sum = 0;
  double exponential_squares = 0;
  constexpr int kDraws = 200'000;
  for (int i = 0; i < kDraws; ++i) {
    const double unit = rng.Unit();
    REQUIRE((unit >= 0 && unit < 1));
    unit_sum += unit;
    const double gap = rng.Exponential(100);
    REQUIRE((std::isfinite(gap) && gap >= 0));
    exponential_sum += gap;
    exponential_squares += gap * gap;
  }
  const double mean = exponential_sum / kDraws;
  CHECK(unit_sum / kDraws == Approx(0.5).margin(0.005));
  CHECK(mean == Approx(100).epsilon(0.02));
  // An exponential's deviation equals its mean.
  CHECK(std::sqrt(exponential_squares / kDraws - mean * mean) == Approx(100).epsilon(0.03));
}

TEST_CASE("mixed seeds differ in every part and are stable", "[rng]") {
  std::set<uint64_t> seeds;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    for (uint64_t a = 0; a < 8; ++a) {
      for (uint64_t b = 0; b < 8; ++b) {
        for (uint64_t c = 0; c < 8; ++c) seeds.insert(MixSeed(seed, a, b, c));
      }
    }
  }
  CHECK(seeds.size() == 4 * 8 * 8 * 8);
  CHECK(MixSeed(1, 2, 3, 4) == MixSeed(1, 2, 3, 4));
  CHECK(MixSeed(1, 2, 3) != MixSeed(1, 3, 2));
}

}  // namespace
}  // namespace muster
