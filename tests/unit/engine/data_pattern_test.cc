#include "agent/engine/data_pattern.h"

#include <zlib.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <set>
#include <string>
#include <vector>

namespace muster {
namespace {

TEST_CASE("content does not compress") {
  std::vector<uint8_t> data(256 * 1024);
  for (size_t i = 0; i < 64; ++i) FillUnique(data.data() + i * 4096, 4096, 11, i);
  uLongf length = compressBound(data.size());
  std::vector<uint8_t> packed(length);
  REQUIRE(compress2(packed.data(), &length, data.data(), data.size(), 9) == Z_OK);
  CHECK(length >= data.size());
}

TEST_CASE("every 4 KiB of every operation is unlike every other") {
  std::set<std::string> seen;
  std::vector<uint8_t> data(64 * 1024);
  size_t units = 0;
  for (uint64_t seed : {1u, 2u}) {
    for (uint64_t number = 0; number < 64; ++number) {
      FillUnique(data.data(), data.size(), seed, number);
      for (size_t unit = 0; unit < data.size(); unit += 4096, ++units) {
        seen.emplace(reinterpret_cast<const char*>(data.data()) + unit, 4096);
      }
    }
  }
  CHECK(seen.size() == units);
}

TEST_CASE("the same bytes with any instruction set, at any length, and none beyond it") {
  for (const size_t bytes : {1u, 7u, 63u, 64u, 65u, 512u, 4096u, 4097u, 100'000u}) {
    std::vector<uint8_t> fast(bytes + 64, 0xEE);
    std::vector<uint8_t> plain(bytes + 64, 0xEE);
    FillUnique(fast.data(), bytes, 5, bytes);
    FillUniquePlain(plain.data(), bytes, 5, bytes);
    CHECK(fast == plain);
    for (size_t i = bytes; i < fast.size(); ++i) REQUIRE(fast[i] == 0xEE);
  }
}

TEST_CASE("bytes are evenly distributed") {
  std::vector<uint8_t> data(1 << 20);
  FillUnique(data.data(), data.size(), 3, 4);
  std::array<double, 256> counts{};
  for (const uint8_t byte : data) ++counts[byte];
  double chi = 0;
  for (const double count : counts) chi += (count - 4096) * (count - 4096) / 4096;
  CHECK(chi < 340);  // 255 degrees of freedom; the seed is fixed
  CHECK(chi > 180);
}

}  // namespace
}  // namespace muster
