#include <nlohmann/json.hpp>
#include <sstream>

#include "controller/report/report.h"
#include "tests/unit/report/run_support.h"
#include "tests/unit/store/interrupted_run.h"

// A run cut off says so in every form, beside each of its figures.
namespace muster::test {
namespace {

using Catch::Contains;

size_t CountOf(const std::string& text, const std::string& what) {
  size_t found = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST_CASE("a run cut off says so in every form") {
  InterruptedRun run;
  run.CommitIntervals("local-1", 5);
  run.CommitIntervals("local-2", 4);
  run.Cut();
  auto reader = MustOpen(run.path());

  const std::string table = *FormatResultsTable(*reader);
  CHECK_THAT(table, Contains("second  INTERRUPTED"));
  CHECK_THAT(table, Contains(" 200 "));  // 3 intervals of 2 x 100 operations
  CHECK_THAT(table, Contains("unsealed: ") && Contains("not checked against totals"));
  const std::string shown = *FormatResults(*reader);
  CHECK_THAT(shown, Contains("run cut: spine, interrupted: the controller ended without closing the run; last "
                             "committed 20"));
  CHECK_THAT(shown, Contains("start skew not known, clock error not known"));
  CHECK_THAT(shown, Contains("unsealed: second") && Contains("== second: INTERRUPTED"));
  for (const std::string& text : {table, shown}) CHECK_THAT(text, !Contains("VALID"));

  const std::string list = FormatRunList(ListRuns(run.runs()));
  CHECK_THAT(list, Contains("last committed 20") && Contains(" UTC in second; unsealed: second"));

  const auto json = nlohmann::json::parse(*RunJson(*reader));
  CHECK(json["steps"][0]["outcome"] == "INTERRUPTED");
  CHECK(json["steps"][0]["sealed"] == false);
  CHECK(json["steps"][0]["fleet"]["kinds"][0]["completed"] == 600);
  for (const char* unknown : {"start_skew_ns", "clock_error_ns", "fill", "outstanding_at_end"}) {
    CHECK(json["steps"][0][unknown].is_null());
  }
  CHECK(json["run"]["unsealed"][0] == "second");
  CHECK(json["run"]["committed_wall_micros"].is_number());
  const auto exported = nlohmann::json::parse(ExportText(*reader, ExportFormat::kJson));
  CHECK(exported["steps"][0]["sealed"] == false);
  CHECK(exported["steps"][0]["intervals"].size() == 4);

  std::istringstream csv(ExportText(*reader, ExportFormat::kCsv));
  std::string line;
  std::getline(csv, line);
  CHECK_THAT(line, Catch::EndsWith(",sealed,message"));
  size_t rows = 0;
  while (std::getline(csv, line)) {
    ++rows;
    CHECK_THAT(line, Contains(",INTERRUPTED,") && Contains(",0,\"unsealed: "));
  }
  CHECK(rows >= 3);
  std::istringstream intervals(ExportText(*reader, ExportFormat::kCsvIntervals));
  std::getline(intervals, line);
  CHECK_THAT(line, Catch::EndsWith(",outcome,sealed"));
  while (std::getline(intervals, line)) CHECK_THAT(line, Catch::EndsWith(",INTERRUPTED,0"));

  const std::string hlog = ExportText(*reader, ExportFormat::kHlog);
  CHECK_THAT(hlog, Contains("#[second INTERRUPTED: unsealed: "));
  CHECK(CountOf(hlog, "Tag=second/unsealed/read,") == 4);
  CHECK(CountOf(hlog, "Tag=") == 4);
}

TEST_CASE("a run that was closed says nothing of the kind") {
  auto run = MakeKnownRun();
  CHECK_THAT(*FormatResults(*run->reader), !Contains("unsealed"));
  const auto json = nlohmann::json::parse(*RunJson(*run->reader));
  CHECK(json["steps"][0]["sealed"] == true);
  CHECK(json["steps"][0]["start_skew_ns"] == 0);
  CHECK(json["steps"][0]["fill"]["bytes"] == 1'000'000'000);
  CHECK(json["steps"][0]["outstanding_at_end"]["count"] == 0);
  CHECK(json["run"]["unsealed"].empty());
  const std::string hlog = ExportText(*run->reader, ExportFormat::kHlog);
  CHECK_THAT(hlog, Contains("Tag=db[initiators=2;load=2T8Q]/read,") && !Contains("db[initiators=2,load=2T8Q] VALID"));
}

}  // namespace
}  // namespace muster::test
