#include "common/stats/counts_pack.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "common/base/rng.h"
#include "common/base/status.h"
#include "common/stats/counts_codec.h"
#include "common/stats/histogram.h"

namespace muster {
namespace {

std::string Payload(const std::vector<Counter>& counters) {
  CountsWriter writer;
  for (const Counter& counter : counters) writer.Add(counter.index, counter.count);
  return writer.Take();
}

std::string CheckThere(const std::string& payload) {
  auto packed = PackCounts(payload);
  REQUIRE(packed.ok());
  auto back = UnpackCounts(*packed);
  INFO(back.status());
  REQUIRE(back.ok());
  CHECK(*back == payload);
  return *std::move(packed);
}

bool Corrupt(std::string_view packed) {
  auto back = UnpackCounts(packed);
  return !back.ok() && GetErrorInfo(back.status()).code == "HISTOGRAM_CORRUPT";
}

TEST_CASE("packed counters come back, extremes included") {
  CheckThere("");
  const uint64_t most = INT64_MAX;
  CheckThere(Payload({{0, most}}));
  CheckThere(Payload({{33'791, most}}));
  CheckThere(Payload({{0, 1}, {33'791, 1}}));
  CheckThere(Payload({{0, most}, {1, 1}, {2, most}, {700, most}, {701, 3}}));
  std::vector<Counter> all;
  for (uint32_t i = 0; i < 33'792; ++i) all.push_back({i, most});
  CheckThere(Payload(all));
  for (Counter& counter : all) counter.count = 1;
  CheckThere(Payload(all));
}

TEST_CASE("packed counters of any shape come back") {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(MixSeed(11, seed));
    INFO("seed " << seed);
    std::vector<Counter> counters;
    const uint64_t gap = uint64_t{1} << rng.Below(12);
    const uint64_t shift = rng.Below(63);
    for (uint64_t at = rng.Below(gap); at < 33'792; at += 1 + rng.Below(gap)) {
      counters.push_back({static_cast<uint32_t>(at), 1 + (rng.Next() >> (1 + rng.Below(shift + 1))) % (INT64_MAX - 1)});
      if (rng.Below(500) == 0) at += rng.Below(4000);
    }
    CheckThere(Payload(counters));
  }
}

TEST_CASE("counters of latencies take less than half packed") {
  Rng rng(5);
  Histogram histogram;
  for (int i = 0; i < 20'000; ++i) {
    double sum = 0;
    for (int k = 0; k < 12; ++k) sum += static_cast<double>(rng.Below(1'000'000)) / 1e6;
    histogram.Record(static_cast<uint64_t>(100e3 * std::exp(sum - 6)));
  }
  const std::string payload = histogram.Encode().counts;
  const std::string packed = CheckThere(payload);
  INFO(payload.size() << " bytes, packed " << packed.size());
  CHECK(packed.size() * 2 < payload.size());
}

// The form is written down: one hand-made example holds it.
TEST_CASE("the packed form is as documented") {
  // One counter, index 3, count 2: three zeros with k = 0 (1110), then 2 - 1 with k = 0 (10), two fill bits.
  CHECK(CheckThere(Payload({{3, 2}})) == "\x01\xe8");
  // Index 0, count 40: no zeros (0); 39 is written out: 20 ones, 6 - 1 in six bits, 100111. m is 320 now, so index 1
  // with count 1 follows with k = 0 (10), and five fill bits.
  CHECK(CheckThere(Payload({{0, 40}, {1, 1}})) == "\x02\x7f\xff\xf8\xb3\xc0");
}

TEST_CASE("packed counters that no writer writes are refused") {
  CHECK(Corrupt(""));
  CHECK(Corrupt(std::string("\x80\x00", 2)));                          // padded number
  CHECK(Corrupt("\xff\xff\xff\x01"));                                  // number too long
  CHECK(Corrupt("\xff\xff\x02"));                                      // more counters than there are
  CHECK(Corrupt("\x01"));                                              // cut short
  CHECK(Corrupt("\x01\xea"));                                          // a fill bit is set
  CHECK(Corrupt(std::string("\x01\xe8\x00", 3)));                      // a byte more
  CHECK(Corrupt(std::string("\x00\x00", 2)));                          // a byte after none
  CHECK(Corrupt(std::string("\x01\xff\xff\xf0\x60\x00", 6)));          // 2 written out, which takes three bits
  CHECK(Corrupt("\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"));  // zeros beyond the layout
}

TEST_CASE("packed bytes, mutated, unpack to a valid payload or fail by type") {
  uint64_t accepted = 0;
  for (uint64_t round = 0; round < 20'000; ++round) {
    Rng rng(MixSeed(77, round));
    INFO("round " << round);
    Histogram histogram;
    for (uint64_t n = 1 + rng.Below(100); n > 0; --n) histogram.Record(1000 + rng.Below(1 << rng.Below(18)));
    std::string packed = *PackCounts(histogram.Encode().counts);
    for (uint64_t n = 1 + rng.Below(2); n > 0; --n) {
      const size_t at = rng.Below(packed.size());
      if (rng.Below(4) == 0) {
        packed.erase(at, 1);
        packed.push_back(static_cast<char>(rng.Below(256)));
      } else {
        packed[at] = static_cast<char>(packed[at] ^ (1 << rng.Below(8)));
      }
    }
    auto payload = UnpackCounts(packed);
    if (!payload.ok()) {
      REQUIRE(GetErrorInfo(payload.status()).code == "HISTOGRAM_CORRUPT");
      continue;
    }
    ++accepted;
    // One form a payload: nothing else unpacks to it.
    auto again = PackCounts(*payload);
    REQUIRE(again.ok());
    REQUIRE(*again == packed);
  }
  CHECK(accepted > 100);
}

}  // namespace
}  // namespace muster
