// Mutated histograms, seeded: each either decodes to something consistent or is a typed error that changes nothing.
// MUSTER_FUZZ_SEED and MUSTER_FUZZ_ROUNDS replay a failure or run longer; the seed of a failing round is printed.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "common/base/rng.h"
#include "common/base/status.h"
#include "common/stats/histogram.h"

namespace muster {
namespace {

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

EncodedHistogram RandomHistogram(Rng& rng) {
  Histogram histogram;
  const uint64_t shift = 20 + rng.Below(44);
  for (uint64_t n = rng.Below(200); n > 0; --n) histogram.Record(rng.Next() >> shift);
  return histogram.Encode();
}

// Bytes that sit on an edge of the word format more often than chance would have it.
char RandomByte(Rng& rng) {
  constexpr unsigned char kEdges[] = {0x00, 0x01, 0x02, 0x7f, 0x80, 0x81, 0xfe, 0xff};
  return static_cast<char>(rng.Below(2) == 0 ? kEdges[rng.Below(sizeof(kEdges))] : rng.Below(256));
}

void MutateBytes(Rng& rng, std::string& bytes, const std::string& other) {
  const size_t at = rng.Below(bytes.size() + 1);
  switch (rng.Below(7)) {
    case 0:  // flip one bit
      if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << rng.Below(8)));
      break;
    case 1:
      if (at < bytes.size()) bytes[at] = RandomByte(rng);
      break;
    case 2:
      bytes.insert(at, 1 + rng.Below(9), RandomByte(rng));
      break;
    case 3:
      bytes.erase(at, 1 + rng.Below(9));
      break;
    case 4:  // cut short
      bytes.resize(at);
      break;
    case 5:  // the head of one, the tail of another
      bytes = bytes.substr(0, at) + other.substr(rng.Below(other.size() + 1));
      break;
    default:  // a word of nine bytes
      for (int i = 0; i < 8; ++i) bytes.insert(std::min(at, bytes.size()), 1, static_cast<char>(0x80 | rng.Below(128)));
      break;
  }
}

uint64_t MutateNumber(Rng& rng, uint64_t value) {
  switch (rng.Below(4)) {
    case 0:
      return value + rng.Below(3) - 1;
    case 1:
      return value ^ (uint64_t{1} << rng.Below(64));
    case 2:
      return rng.Next() >> rng.Below(64);
    default:
      return rng.Below(2) == 0 ? 0 : UINT64_MAX;
  }
}

void MutateMoments(Rng& rng, Moments& moments) {
  uint64_t* fields[] = {&moments.count, &moments.sum, &moments.min, &moments.max, &moments.overflow};
  const uint64_t which = rng.Below(6);
  if (which < 5) {
    *fields[which] = MutateNumber(rng, *fields[which]);
  } else {
    moments.sum_squares =
        (static_cast<Uint128>(MutateNumber(rng, static_cast<uint64_t>(moments.sum_squares >> 64))) << 64) |
        MutateNumber(rng, static_cast<uint64_t>(moments.sum_squares));
  }
}

// Everything a user of a decoded histogram relies on.
void CheckUsable(const Histogram& histogram) {
  const Moments& moments = histogram.moments();
  uint64_t total = 0;
  uint32_t last = 0;
  histogram.ForEach([&](uint32_t index, uint64_t count) {
    REQUIRE(index < hist::kCounters);
    REQUIRE((total == 0 || index > last));
    last = index;
    total += count;
  });
  REQUIRE(total == moments.count);
  REQUIRE(moments.overflow <= moments.count);
  if (moments.count > 0) {
    REQUIRE(moments.min <= moments.max);
    uint64_t previous = 0;
    for (const double q : {0.0, 0.01, 0.5, 0.99, 0.99999, 1.0}) {
      const uint64_t value = histogram.At(q).value;
      REQUIRE((value >= moments.min && value <= moments.max && value >= previous));
      previous = value;
    }
    REQUIRE(previous == moments.max);
  }
  REQUIRE((std::isfinite(moments.Mean()) && std::isfinite(moments.StandardDeviation())));
  const auto again = Histogram::Decode(histogram.Encode());
  REQUIRE(again.ok());
  REQUIRE(*again == histogram);
}

TEST_CASE("mutated histograms decode consistently or fail by type", "[fuzz]") {
  const uint64_t seed = FromEnvironment("MUSTER_FUZZ_SEED", 20240607);
  const uint64_t rounds = FromEnvironment("MUSTER_FUZZ_ROUNDS", 30'000);
  Histogram target;
  target.Record(123);
  target.Record(1'000'000);
  const Histogram before = target;
  uint64_t accepted = 0;
  uint64_t refused = 0;
  for (uint64_t round = 0; round < rounds; ++round) {
    Rng rng(MixSeed(seed, round));
    INFO("MUSTER_FUZZ_SEED=" << seed << " round " << round);
    EncodedHistogram encoded = RandomHistogram(rng);
    const EncodedHistogram other = RandomHistogram(rng);
    for (uint64_t n = 1 + rng.Below(3); n > 0; --n) {
      if (rng.Below(3) == 0) {
        MutateMoments(rng, encoded.moments);
      } else {
        MutateBytes(rng, encoded.counts, other.counts);
      }
    }
    const absl::Status status = target.Merge(encoded);
    if (status.ok()) {
      ++accepted;
      CheckUsable(target);
      CheckUsable(*Histogram::Decode(encoded));
      target = before;
    } else {
      ++refused;
      const std::string code = GetErrorInfo(status).code;
      REQUIRE((code == "HISTOGRAM_CORRUPT" || code == "HISTOGRAM_OVERFLOW"));
      REQUIRE(target == before);
    }
  }
  // Both answers must have been seen, or the mutations test nothing.
  CHECK(accepted > rounds / 1'000);
  CHECK(refused > rounds / 2);
}

TEST_CASE("random bytes decode to ascending counters or fail by type", "[fuzz]") {
  const uint64_t seed = FromEnvironment("MUSTER_FUZZ_SEED", 20240607);
  uint64_t accepted = 0;
  for (uint64_t round = 0; round < 20'000; ++round) {
    Rng rng(MixSeed(seed, round, 1));
    INFO("MUSTER_FUZZ_SEED=" << seed << " round " << round);
    std::string bytes(rng.Below(40), '\0');
    for (char& byte : bytes) byte = RandomByte(rng);
    const auto counters = DecodeCounts(bytes);
    if (!counters.ok()) {
      REQUIRE(GetErrorInfo(counters.status()).code == "HISTOGRAM_CORRUPT");
      continue;
    }
    ++accepted;
    uint32_t next = 0;
    CountsWriter writer;
    for (const Counter& counter : *counters) {
      REQUIRE((counter.index >= next && counter.index < hist::kCounters && counter.count >= 1));
      next = counter.index + 1;
      writer.Add(counter.index, counter.count);
    }
    const auto again = DecodeCounts(writer.Take());
    REQUIRE(again.ok());
    REQUIRE(*again == *counters);
  }
  CHECK(accepted > 100);
}

}  // namespace
}  // namespace muster
