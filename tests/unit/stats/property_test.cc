// Laws of merging and quantiles over many seeded random histograms.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "common/base/rng.h"
#include "common/stats/histogram.h"

namespace muster {
namespace {

// Values of one shape a seed: narrow, wide over all octaves, few distinct, beyond the range.
std::vector<uint64_t> RandomValues(Rng& rng, uint64_t most) {
  std::vector<uint64_t> values(rng.Below(most));
  const uint64_t shape = rng.Below(4);
  const uint64_t centre = uint64_t{1} << (5 + rng.Below(36));
  for (uint64_t& value : values) {
    switch (shape) {
      case 0:
        value = centre + rng.Below(centre / 4 + 1);
        break;
      case 1:
        value = rng.Next() >> (22 + rng.Below(42));
        break;
      case 2:
        value = centre * (1 + rng.Below(3));
        break;
      default:
        value = rng.Next() >> (20 + rng.Below(3));
        break;
    }
  }
  return values;
}

Histogram Of(const std::vector<uint64_t>& values) {
  Histogram histogram;
  for (const uint64_t value : values) histogram.Record(value);
  return histogram;
}

Histogram Merged(Histogram a, const Histogram& b) {
  REQUIRE(a.Merge(b).ok());
  return a;
}

TEST_CASE("merging is commutative and associative to the bit", "[property]") {
  Rng rng(101);
  for (int round = 0; round < 200; ++round) {
    INFO("round " << round);
    const Histogram a = Of(RandomValues(rng, 300));
    const Histogram b = Of(RandomValues(rng, 300));
    const Histogram c = Of(RandomValues(rng, 300));
    REQUIRE(Merged(a, b) == Merged(b, a));
    const Histogram left = Merged(Merged(a, b), c);
    const Histogram right = Merged(a, Merged(b, c));
    REQUIRE(left == right);
    REQUIRE(left.Encode() == right.Encode());
    REQUIRE(left.moments().StandardDeviation() == right.moments().StandardDeviation());
    REQUIRE(Merged(a, Histogram()) == a);
  }
}

TEST_CASE("the sum over any split is the whole, merged plain or encoded, in any order", "[property]") {
  Rng rng(103);
  for (int round = 0; round < 100; ++round) {
    INFO("round " << round);
    const std::vector<uint64_t> values = RandomValues(rng, 2'000);
    std::vector<Histogram> parts(1 + rng.Below(24));
    for (const uint64_t value : values) parts[rng.Below(parts.size())].Record(value);
    Histogram plain;
    for (const Histogram& part : parts) REQUIRE(plain.Merge(part).ok());
    for (size_t i = parts.size(); i > 1; --i) std::swap(parts[i - 1], parts[rng.Below(i)]);
    Histogram encoded;
    for (const Histogram& part : parts) REQUIRE(encoded.Merge(part.Encode()).ok());
    const Histogram whole = Of(values);
    REQUIRE(plain == whole);
    REQUIRE(encoded == whole);
    REQUIRE(encoded.Encode() == whole.Encode());
  }
}

TEST_CASE("encoding and decoding gives the same histogram", "[property]") {
  Rng rng(107);
  for (int round = 0; round < 300; ++round) {
    INFO("round " << round);
    const Histogram histogram = Of(RandomValues(rng, 1'000));
    const EncodedHistogram encoded = histogram.Encode();
    const auto decoded = Histogram::Decode(encoded);
    REQUIRE(decoded.ok());
    REQUIRE(*decoded == histogram);
    REQUIRE(decoded->Encode() == encoded);
  }
}

TEST_CASE("quantiles are those of the sorted values, to the width of a counter", "[property]") {
  Rng rng(109);
  for (int round = 0; round < 200; ++round) {
    INFO("round " << round);
    std::vector<uint64_t> values = RandomValues(rng, 1'500);
    if (values.empty()) continue;
    const Histogram histogram = Of(values);
    std::sort(values.begin(), values.end());
    uint64_t last = 0;
    for (const uint64_t per_mille : {0, 1, 10, 50, 250, 333, 500, 750, 900, 950, 990, 999, 1000}) {
      const double q = static_cast<double>(per_mille) / 1000;
      // ceil(q n) in integers, independent of the code under test.
      const uint64_t rank = std::max<uint64_t>(1, (per_mille * values.size() + 999) / 1000);
      const uint64_t exact = values[rank - 1];
      uint64_t expected = values.back();
      if (exact <= hist::kHighest) {
        expected = std::min(hist::HighestOf(hist::IndexOf(exact)), values.back());
      }
      const uint64_t value = histogram.At(q).value;
      INFO("q " << q << " rank " << rank << " exact " << exact);
      REQUIRE(value == expected);
      REQUIRE(value >= exact);
      if (exact <= hist::kHighest) REQUIRE(value - exact <= exact / 1000);
      REQUIRE(value >= last);
      last = value;
    }
  }
}

TEST_CASE("pooled mean and deviation of reads and writes are those of all operations", "[property]") {
  Rng rng(113);
  for (int round = 0; round < 50; ++round) {
    std::vector<uint64_t> reads = RandomValues(rng, 500);
    const std::vector<uint64_t> writes = RandomValues(rng, 500);
    const Histogram pooled = Merged(Of(reads), Of(writes));
    reads.insert(reads.end(), writes.begin(), writes.end());
    const Histogram all = Of(reads);
    REQUIRE(pooled.moments() == all.moments());
    REQUIRE(pooled.moments().Mean() == all.moments().Mean());
    REQUIRE(pooled.moments().StandardDeviation() == all.moments().StandardDeviation());
  }
}

}  // namespace
}  // namespace muster
