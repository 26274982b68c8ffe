#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/stats/histogram.h"

namespace muster {

// One case of tests/golden/histograms.txt (format: tests/golden/make_golden.mjs).
struct GoldenCase {
  std::string name;
  std::vector<std::pair<uint64_t, uint64_t>> values;  // value, times
  std::vector<Counter> counters;
  std::vector<std::pair<double, uint64_t>> percentiles;  // percent, value
  uint64_t count = 0;
  std::string base64;
};

std::string GoldenPath(std::string_view name);
std::vector<std::string> GoldenLines(std::string_view name);  // fails the test when the file is not there
std::vector<GoldenCase> GoldenCases();
Histogram Recorded(const GoldenCase& golden);  // by RecordMany

// The V2 compressed form taken apart. Fails the test on anything unexpected.
struct V2Form {
  uint32_t cookie = 0;
  uint32_t normalizing_offset = 0;
  uint32_t digits = 0;
  uint64_t lowest = 0;
  uint64_t highest = 0;
  uint64_t ratio_bits = 0;
  std::string payload;
};
V2Form ParseV2(const std::string& base64);

}  // namespace muster
