#include "common/base/status.h"
#include "controller/report/cells.h"
#include "controller/report/sparkline.h"
#include "tests/unit/report/run_support.h"

namespace muster::test {
namespace {

using Catch::Contains;

TEST_CASE("cells: figures as people read them") {
  CHECK(CountCell(0) == "0");
  CHECK(CountCell(12.34) == "12.3");
  CHECK(CountCell(999.6) == "1,000");
  CHECK(CountCell(1234567) == "1,234,567");
  CHECK(MegabytesCell(1'234'000'000) == "1,234");
  CHECK(MegabytesCell(12'340'000) == "12.34");
  Histogram nineteen;
  for (int i = 0; i < 19; ++i) nineteen.Record(1000);
  CHECK(PercentileCell(nineteen, 0.5) == "n too small");
  nineteen.Record(1000);
  CHECK(PercentileCell(nineteen, 0.5) == "1.00 us");  // ten operations above the median
  CHECK(PercentileCell(Histogram(), 0.5) == "-");
  CHECK(TimeCell(1'700'000'000'000'000) == "2023-11-14 22:13:20 UTC");
}

TEST_CASE("the line of IOPS: heights, blanks for what is not there, warm-up and window below") {
  const std::vector<SparkPoint> points = {{.interval = 0, .in_window = false, .iops = 0},
                                          {.interval = 1, .in_window = true, .iops = 50},
                                          {.interval = 3, .in_window = true, .iops = 100},
                                          {.interval = 4, .in_window = true, .iops = 0}};
  const std::string text = Sparkline(points, kSecond, 80, "");
  CHECK_THAT(text, Contains("0 lowest, 100 highest"));
  CHECK_THAT(text, Contains("\n▁▄ █▁\n~= ==\n"));
  CHECK_THAT(Sparkline(points, kSecond, 3, ""), Contains("2 intervals a column") && Contains("\n▂█▁\n===\n"));
  CHECK(Sparkline({}, kSecond, 80, "").empty());
}

TEST_CASE("the table: one row a step, exact figures") {
  auto run = MakeKnownRun();
  auto text = FormatResultsTable(*run->reader);
  REQUIRE(text.ok());
  // 2 initiators x 2,000 operations a second of 4 KiB.
  CHECK_THAT(*text, Contains("db[initiators=2,load=2T8Q]  VALID       2  2T8Q  4,000  16.38  200 us  100 us  300 us"));
  CHECK_THAT(*text, Contains("n too small"));  // p99.9 of 8,000 operations has 8 above it
  CHECK_THAT(*text, Contains("32/32"));
  CHECK_THAT(*text, Contains("SKIPPED: 512 B on 4096 B blocks"));
  const size_t note = text->find("note on scratch: target on the same host\n");
  REQUIRE(note != std::string::npos);
  CHECK(text->find("note", note + 1) == std::string::npos);  // said once, and no other fact is one
}

TEST_CASE("the details: every group and kind, checks, facts, fill, IOPS line; nothing that controls a terminal") {
  auto run = MakeKnownRun();
  auto text = FormatResults(*run->reader);
  REQUIRE(text.ok());
  for (const char* expected :
       {"== db[initiators=2,load=2T8Q]: VALID", "0 (local-1)", "1 (local-2)", "read", "write",
        "wait (issued - due) was zero throughout", "load 2T8Q an initiator; 1GiB shared on target scratch",
        "errors  pass", "\"limit\" 0", "local-1: ring: DEFER_TASKRUN?[31m", "filled 1.00 GB in 4.0 s (250 MB/s)", "███",
        "~==", "window 2 of 2 intervals of 1s"}) {
    INFO(expected);
    CHECK_THAT(*text, Contains(expected));
  }
  CHECK(text->find('\x1b') == std::string::npos);
  DetailOptions options;
  // Numbers are those that plan and progress print: the first is 1.
  options.step = "1";
  auto first = FormatResults(*run->reader, options);
  REQUIRE(first.ok());
  CHECK_THAT(*first, Contains("== db[initiators=2,load=2T8Q]"));
  options.step = "2";
  auto one = FormatResults(*run->reader, options);
  REQUIRE(one.ok());
  CHECK_THAT(*one, !Contains("2T8Q"));
  options.step = "0";
  CHECK(GetErrorInfo(FormatResults(*run->reader, options).status()).code == "STEP_UNKNOWN");
  options.step = "none";
  const ErrorInfo info = GetErrorInfo(FormatResults(*run->reader, options).status());
  CHECK(info.code == "STEP_UNKNOWN");
  CHECK_THAT(info.next, Contains("db[initiators=2"));
}

TEST_CASE("INVALID stands by its figures with the reason") {
  auto run = MakeRandomRun();
  auto text = FormatResults(*run->reader);
  REQUIRE(text.ok());
  CHECK_THAT(*text, Contains("INVALID: sums: 1 is not 2"));
  CHECK_THAT(*text, Contains("missing: agent a interval 4 (gap)") && Contains("missing: 68 more"));
  CHECK_THAT(*text, Contains("lost agents: b"));
  CHECK_THAT(*text, Contains("delivered in a window that was begun anew; in no figure above\n  lost agent"));
  CHECK_THAT(*text, Contains("wait (issued - due) and service (done - issued)\n") && Contains("service mean"));
  CHECK_THAT(*text, Contains("load poisson 12345.5/s an initiator; "));
  CHECK_THAT(*text, Contains("not ended after 8 ns"));
}

TEST_CASE("the list of runs") {
  CHECK(FormatRunList({}) == "no runs\n");
  RunSummary run{.id = "20261130-1", .path = "/p", .campaign_name = "spine", .outcome = "complete", .message = ""};
  run.started_wall_micros = 1'700'000'000'000'000;
  run.steps = 3;
  run.valid = 2;
  CHECK_THAT(FormatRunList({run}), Contains("20261130-1  2023-11-14 22:13:20 UTC  spine     complete      3      2"));
}

}  // namespace
}  // namespace muster::test
