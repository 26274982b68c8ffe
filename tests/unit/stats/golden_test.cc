// Our histogram against HdrHistogram's: files made by, and readings recorded from, hdr-histogram-js.
#include <bit>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "common/base/status.h"
#include "common/stats/histogram.h"
#include "tests/unit/stats/golden_support.h"

namespace muster {
namespace {

constexpr int64_t kStartMicros = 1'700'000'000'123'456;

// What ours.hlog holds: every golden case, the first without a tag, and one with a value beyond the range.
std::string OurLog() {
  std::string log = HlogWriter::Header(kStartMicros, "made by the tests\nsecond comment line");
  double start = 0;
  for (const GoldenCase& golden : GoldenCases()) {
    const auto line = HlogWriter::Line(start == 0 ? "" : golden.name, start, 1.25, Recorded(golden));
    REQUIRE(line.ok());
    log += *line;
    start += 1.25;
  }
  Histogram over;
  over.Record(1'000);
  over.Record(2 * hist::kHighest);
  log += *HlogWriter::Line("overflow", start, 1.25, over);
  return log;
}

std::vector<std::string> Lines(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Compressed bytes depend on the zlib in use, so lines are compared by what they say.
void CheckSameLine(const std::string& a, const std::string& b) {
  INFO(a << "\n" << b);
  if (a.empty() || a.front() == '#' || a.front() == '"') {
    CHECK(a == b);
    return;
  }
  CHECK(a.substr(0, a.rfind(',')) == b.substr(0, b.rfind(',')));
  CHECK(ParseV2(a.substr(a.rfind(',') + 1)).payload == ParseV2(b.substr(b.rfind(',') + 1)).payload);
}

TEST_CASE("we count as HdrHistogram does", "[golden]") {
  for (const GoldenCase& golden : GoldenCases()) {
    INFO(golden.name);
    const Histogram ours = Recorded(golden);
    CHECK(ours.count() == golden.count);
    std::vector<Counter> counters;
    ours.ForEach([&](uint32_t index, uint64_t count) { counters.push_back({index, count}); });
    CHECK(counters == golden.counters);
  }
}

TEST_CASE("our percentiles are HdrHistogram's, clamped to the maximum", "[golden]") {
  for (const GoldenCase& golden : GoldenCases()) {
    if (golden.count == 0) continue;
    const Histogram ours = Recorded(golden);
    REQUIRE(golden.percentiles.size() >= 10);
    for (const auto& [percent, value] : golden.percentiles) {
      INFO(golden.name << " p" << percent);
      CHECK(ours.At(percent / 100).value == std::min(value, ours.moments().max));
    }
  }
}

TEST_CASE("we read HdrHistogram's V2 form and write the same payload bytes", "[golden]") {
  for (const GoldenCase& golden : GoldenCases()) {
    INFO(golden.name);
    const V2Form theirs = ParseV2(golden.base64);
    CHECK(theirs.cookie == (0x1c849303u | 0x10));
    CHECK(CheckLayout(static_cast<int>(theirs.digits), theirs.lowest, theirs.highest).ok());
    const auto counters = DecodeCounts(theirs.payload);
    REQUIRE(counters.ok());
    CHECK(*counters == golden.counters);

    const Histogram histogram = Recorded(golden);
    const auto text = HlogWriter::CompressedBase64(histogram);
    REQUIRE(text.ok());
    const V2Form ours = ParseV2(*text);
    CHECK(ours.payload == theirs.payload);
    CHECK(ours.cookie == theirs.cookie);
    CHECK(ours.digits == theirs.digits);
    CHECK(ours.lowest == theirs.lowest);
    CHECK(ours.highest == theirs.highest);
    // These two follow the Java original (offset 0, ratio as a double); the port writes 1 and ignores them.
    CHECK(ours.normalizing_offset == 0);
    CHECK(ours.ratio_bits == std::bit_cast<uint64_t>(1.0));

    // And their counters with our moments make a histogram that decodes to the same.
    const auto decoded = Histogram::Decode({.moments = histogram.moments(), .counts = theirs.payload});
    REQUIRE(decoded.ok());
    CHECK(*decoded == histogram);
  }
}

TEST_CASE("log lines are those of HdrHistogram's own writer", "[golden]") {
  const std::vector<std::string> lines = GoldenLines("reference.hlog");
  const std::vector<std::string> header = Lines(HlogWriter::Header(kStartMicros, ""));
  REQUIRE(header.size() == 3);
  CHECK(lines[0] == header[0]);
  CHECK(lines[1] == header[2]);
  const std::vector<GoldenCase> cases = GoldenCases();
  REQUIRE(lines.size() == cases.size() + 2);
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::string tag = cases[i].name == "zero" ? "" : cases[i].name;
    const auto line = HlogWriter::Line(tag, 1.5 * static_cast<double>(i), 1.5, Recorded(cases[i]));
    REQUIRE(line.ok());
    CHECK(line->back() == '\n');
    CheckSameLine(line->substr(0, line->size() - 1), lines[i + 2]);
  }
}

TEST_CASE("the header says when, in UTC", "[golden]") {
  const std::vector<std::string> header = Lines(HlogWriter::Header(kStartMicros, "a\r\nb"));
  CHECK(header[0] == "#a");
  CHECK(header[1] == "#b");
  CHECK(header[3] == "#[StartTime: 1700000000.123 (seconds since epoch), 2023-11-14T22:13:20Z]");
}

TEST_CASE("a tag that would break the line is refused", "[golden]") {
  for (const char* tag : {"a,b", "a b", "a\nb", "\t"}) {
    CHECK(GetErrorInfo(HlogWriter::Line(tag, 0, 1, Histogram()).status()).code == "HLOG_TAG");
  }
}

TEST_CASE("our log is still the one that HdrHistogram's reader was given", "[golden]") {
  const std::vector<std::string> committed = GoldenLines("ours.hlog");
  const std::vector<std::string> now = Lines(OurLog());
  REQUIRE(committed.size() == now.size());
  for (size_t i = 0; i < now.size(); ++i) CheckSameLine(now[i], committed[i]);
}

TEST_CASE("what HdrHistogram's reader saw in our log is what we say", "[golden]") {
  std::vector<std::pair<std::string, Histogram>> expected;
  std::vector<double> percents;
  for (const GoldenCase& golden : GoldenCases()) {
    expected.emplace_back(expected.empty() ? "-" : golden.name, Recorded(golden));
    if (percents.empty()) {
      for (const auto& [percent, value] : golden.percentiles) percents.push_back(percent);
    }
  }
  Histogram over;
  over.Record(1'000);
  over.Record(2 * hist::kHighest);
  expected.emplace_back("overflow", over);

  const std::vector<std::string> read = GoldenLines("ours.hlog.read");
  REQUIRE(read.size() == expected.size());
  for (size_t i = 0; i < read.size(); ++i) {
    const auto& [tag, histogram] = expected[i];
    INFO(tag);
    std::istringstream in(read[i]);
    std::string seen_tag;
    double start = 0;
    double length = 0;
    uint64_t count = 0;
    in >> seen_tag >> start >> length >> count;
    CHECK(seen_tag == tag);
    CHECK(start == Approx(1.25 * static_cast<double>(i)).margin(0.0015));  // the reader keeps milliseconds
    CHECK(length == Approx(1.25).margin(0.0015));
    CHECK(count == histogram.count());
    for (const double percent : percents) {
      uint64_t value = 0;
      REQUIRE(in >> value);
      INFO("p" << percent);
      // Their value is a counter's highest one; ours is clamped to the exact maximum, which can lie beyond the range.
      const uint64_t ours = histogram.At(percent / 100).value;
      CHECK(hist::HighestOf(hist::IndexOf(std::min(ours, hist::kHighest))) == value);
    }
    uint64_t max = 0;
    REQUIRE(in >> max);
    const uint64_t last = hist::HighestOf(hist::IndexOf(std::min(histogram.moments().max, hist::kHighest)));
    CHECK(max == last);
  }
}

// Run by hand only, see tests/golden/make_golden.mjs.
TEST_CASE("write our log for HdrHistogram's reader", "[.][golden-write]") {
  const char* path = std::getenv("MUSTER_WRITE_HLOG");
  REQUIRE(path != nullptr);
  std::ofstream(path) << OurLog();
}

}  // namespace
}  // namespace muster
