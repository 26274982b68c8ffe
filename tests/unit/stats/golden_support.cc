#include "tests/unit/stats/golden_support.h"

#include <zlib.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "absl/strings/escaping.h"

namespace muster {
namespace {

template <typename T>
T TakeBigEndian(std::string_view& from) {
  REQUIRE(from.size() >= sizeof(T));
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value = static_cast<T>(value << 8 | static_cast<unsigned char>(from[i]));
  from.remove_prefix(sizeof(T));
  return value;
}

// "a:b c:d ..." as pairs.
template <typename A>
std::vector<std::pair<A, uint64_t>> Pairs(std::istringstream& in) {
  std::vector<std::pair<A, uint64_t>> pairs;
  A first{};
  char colon = 0;
  uint64_t second = 0;
  while (in >> first >> colon >> second) {
    REQUIRE(colon == ':');
    pairs.emplace_back(first, second);
  }
  REQUIRE(in.eof());
  return pairs;
}

}  // namespace

std::string GoldenPath(std::string_view name) {
  return std::string(MUSTER_GOLDEN_DIR) + "/" + std::string(name);
}

std::vector<std::string> GoldenLines(std::string_view name) {
  std::ifstream in(GoldenPath(name));
  INFO("golden file " << name);
  REQUIRE(in.good());
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  REQUIRE_FALSE(lines.empty());
  return lines;
}

std::vector<GoldenCase> GoldenCases() {
  std::vector<GoldenCase> cases;
  for (const std::string& line : GoldenLines("histograms.txt")) {
    if (line.empty() || line.front() == '#') continue;
    std::istringstream in(line);
    std::string key;
    in >> key;
    if (key == "case") {
      in >> cases.emplace_back().name;
      continue;
    }
    REQUIRE_FALSE(cases.empty());
    GoldenCase& golden = cases.back();
    if (key == "values") {
      golden.values = Pairs<uint64_t>(in);
    } else if (key == "counters") {
      for (const auto& [index, count] : Pairs<uint32_t>(in)) golden.counters.push_back({index, count});
    } else if (key == "percentiles") {
      golden.percentiles = Pairs<double>(in);
    } else if (key == "count") {
      in >> golden.count;
    } else if (key == "base64") {
      in >> golden.base64;
    } else {
      FAIL("unknown line in golden file: " << key);
    }
  }
  REQUIRE(cases.size() >= 10);
  return cases;
}

Histogram Recorded(const GoldenCase& golden) {
  Histogram histogram;
  for (const auto& [value, times] : golden.values) REQUIRE(histogram.RecordMany(value, times).ok());
  return histogram;
}

V2Form ParseV2(const std::string& base64) {
  std::string bytes;
  REQUIRE(absl::Base64Unescape(base64, &bytes));
  std::string_view outer = bytes;
  REQUIRE(TakeBigEndian<uint32_t>(outer) == (0x1c849304u | 0x10));
  const auto deflated = TakeBigEndian<uint32_t>(outer);
  REQUIRE(deflated == outer.size());
  std::string plain(40 + kMaxCountsPayload + 1, '\0');
  uLongf size = plain.size();
  REQUIRE(uncompress(reinterpret_cast<Bytef*>(plain.data()), &size, reinterpret_cast<const Bytef*>(outer.data()),
                     outer.size()) == Z_OK);
  std::string_view inner(plain.data(), size);
  V2Form form;
  form.cookie = TakeBigEndian<uint32_t>(inner);
  const auto length = TakeBigEndian<uint32_t>(inner);
  form.normalizing_offset = TakeBigEndian<uint32_t>(inner);
  form.digits = TakeBigEndian<uint32_t>(inner);
  form.lowest = TakeBigEndian<uint64_t>(inner);
  form.highest = TakeBigEndian<uint64_t>(inner);
  form.ratio_bits = TakeBigEndian<uint64_t>(inner);
  REQUIRE(length == inner.size());
  form.payload = std::string(inner);
  return form;
}

}  // namespace muster
