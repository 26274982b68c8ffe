// A run whose reports passed their bound: the same figures of the window, none of intervals, and every form says so.
#include <catch2/catch.hpp>
#include <sstream>

#include "tests/unit/report/run_support.h"

namespace muster::test {
namespace {

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("the details say that histograms came per window, beside unchanged figures") {
  const std::string plain = *FormatResults(*MakeKnownRun()->reader, {});
  const std::string held = *FormatResults(*MakeKnownRun(true)->reader, {});
  const std::string note =
      "  histograms per window: report bound (4 initiator-intervals; their intervals have no percentiles)";
  CHECK_FALSE(Has(plain, "report bound"));
  REQUIRE(Has(held, note));
  // But for the note, nothing differs.
  std::string without;
  bool skip_blank = false;
  for (const std::string& line : Lines(held)) {
    if (line == note) {
      skip_blank = true;
      continue;
    }
    if (!(skip_blank && line.empty())) without += line + "\n";
    skip_blank = false;
  }
  CHECK(without == plain);
}

TEST_CASE("CSV of steps differs in one column alone") {
  const auto plain = Lines(ExportText(*MakeKnownRun()->reader, ExportFormat::kCsv));
  const auto held = Lines(ExportText(*MakeKnownRun(true)->reader, ExportFormat::kCsv));
  REQUIRE(plain.size() == held.size());
  CHECK(plain[0] == held[0]);
  REQUIRE(plain.size() > 3);
  for (size_t i = 1; i < plain.size(); ++i) {
    const std::string before = ",per interval,";
    const size_t at = plain[i].find(before);
    REQUIRE(at != std::string::npos);
    std::string expected = plain[i];
    expected.replace(at, before.size(), ",per window: report bound,");
    // The step that was skipped has no figures that could have come otherwise.
    CHECK((held[i] == expected || (Has(plain[i], "SKIPPED") && held[i] == plain[i])));
  }
}

TEST_CASE("intervals have counters, no percentiles, and the reason") {
  const auto run = MakeKnownRun(true);
  const auto rows = Lines(ExportText(*run->reader, ExportFormat::kCsvIntervals));
  REQUIRE(rows.size() > 9);
  for (size_t i = 1; i < rows.size(); ++i) {
    INFO(rows[i]);
    CHECK(Has(rows[i], ",per window: report bound"));
    // Of an initiator the mean is exact, of the fleet there is none; no percentile of either.
    if (Has(rows[i], ",fleet,read,")) CHECK(Has(rows[i], ",2000,8192000,0,2000,8192000,0,,,"));
    if (Has(rows[i], ",0,read,")) CHECK(Has(rows[i], ",1000,4096000,0,1000,4096000,1000,100000,0,100000,,,"));
  }
  const std::string json = ExportText(*run->reader, ExportFormat::kJson);
  CHECK(Has(json, R"("histograms_per_window":{"reason":"report bound","initiator_intervals":4,)"));
  CHECK(Has(json, R"("histograms_per_window":true)"));
  const std::string hlog = ExportText(*run->reader, ExportFormat::kHlog);
  CHECK(Has(hlog, "no line, histograms per window: report bound]"));
  CHECK_FALSE(Has(hlog, "Tag="));
}

}  // namespace
}  // namespace muster::test
