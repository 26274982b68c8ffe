#include <catch2/catch.hpp>

#include "controller/cli/live_view.h"

namespace muster {
namespace {

bool Contains(const std::vector<std::string>& lines, const std::string& text) {
  for (const auto& line : lines) {
    if (line.find(text) != std::string::npos) return true;
  }
  return false;
}

size_t Columns(const std::string& line) {
  size_t columns = 0;
  for (char c : line) columns += (c & 0xC0) != 0x80;
  return columns;
}

LiveState Measuring() {
  LiveState state;
  state.run_id = "20260101-000000-db-0001";
  state.steps = 4;
  state.step_number = 2;
  state.step_name = "db[initiators=2]";
  state.phase = PhaseKind::kMeasure;
  state.phase_elapsed = 12 * kSecond;
  state.phase_expected = 40 * kSecond;
  state.run_remaining = 95 * kSecond;
  LiveFigures live;
  live.in_window = true;
  live.iops = 12'345;
  live.bytes_per_second = 12'345.0 * 4096;
  live.p50 = 87'100;
  live.p99 = 1'240'000;
  live.p999 = live.max = 3'000'000'000;
  live.agents = {{.agent = "local-1", .interval = 11, .iops = 6'000},
                 {.agent = "local-2", .interval = 9, .silent = true}};
  state.live = live;
  state.history = {1, 2, 3};
  return state;
}

TEST_CASE("the live view shows step, phase, ETA, fleet figures and a line an agent") {
  const auto lines = DrawLive(Measuring(), 120);
  CHECK(Contains(lines, "step 2/4 db[initiators=2]"));
  CHECK(Contains(lines, "1:35 left"));
  CHECK(Contains(lines, "0:12 of 0:40"));
  CHECK(Contains(lines, "ETA 0:28"));
  CHECK(Contains(lines, "12.3 k IOPS"));
  CHECK(Contains(lines, "p50  87.1 us"));
  CHECK(Contains(lines, "p99  1.24 ms"));
  CHECK(Contains(lines, "local-1"));
  CHECK(Contains(lines, "SILENT"));
  CHECK_FALSE(Contains(lines, "warm-up"));
}

TEST_CASE("a count that runs on is not taken for one of the interval") {
  LiveState state = Measuring();
  CHECK_FALSE(Contains(DrawLive(state, 120), "FAILED"));
  state.live->failed = 7;
  CHECK(Contains(DrawLive(state, 120), "7 FAILED so far"));
}

TEST_CASE("an interval in which nothing finished has no latency, rather than 0 ns") {
  LiveState state = Measuring();
  state.live->p50 = state.live->p99 = state.live->p999 = state.live->max = 0;
  const auto lines = DrawLive(state, 120);
  CHECK_FALSE(Contains(lines, "p50     0 ns"));
  CHECK_FALSE(Contains(lines, "p99     0 ns"));
  CHECK(LiveLatency(*state.live, 0) == "-");
  CHECK(LiveLatency(*Measuring().live, 87'100) == "87.1 us");
}

TEST_CASE("percentiles that are not there are not zero") {
  LiveState state = Measuring();
  state.live->held = true;
  state.live->p50 = state.live->p99 = state.live->p999 = 0;
  const auto lines = DrawLive(state, 120);
  CHECK(Contains(lines, "p50        -"));
  CHECK(Contains(lines, "p99        -"));
  CHECK_FALSE(Contains(lines, "p50        0"));
}

TEST_CASE("a fill shows bytes, rate and ETA") {
  LiveState state;
  state.phase = PhaseKind::kFill;
  state.fill = FillProgress{
      .bytes_done = 250'000'000, .bytes_total = 1'000'000'000, .bytes_per_second = 5e7, .eta = 15 * kSecond};
  const auto lines = DrawLive(state, 120);
  CHECK(Contains(lines, " 25 %"));
  CHECK(Contains(lines, "250 MB of 1.00 GB"));
  CHECK(Contains(lines, "ETA 0:15"));
}

TEST_CASE("no line is wider than the terminal and no character is cut") {
  for (size_t width : {20, 33, 80}) {
    for (const auto& line : DrawLive(Measuring(), width)) {
      CHECK(Columns(line) <= width);
      CHECK((line.empty() || (static_cast<unsigned char>(line.back()) < 0xE0)));
    }
  }
}

TEST_CASE("the sparkline shows the newest values, scaled to the largest") {
  CHECK(Sparkline({}, 10).empty());
  CHECK(Sparkline({0, 0}, 10) == "▁▁");
  CHECK(Sparkline({0, 4, 8}, 10) == "▁▅█");
  CHECK(Sparkline({8, 1, 2}, 2) == "▅█");
}

TEST_CASE("counts have three digits") {
  CHECK(FormatCount(0) == "0");
  CHECK(FormatCount(999) == "999");
  CHECK(FormatCount(999.6) == "1.00 k");
  CHECK(FormatCount(12'345) == "12.3 k");
  CHECK(FormatCount(123'456) == "123 k");
  CHECK(FormatCount(1'200'000) == "1.20 M");
  CHECK(FormatCount(5e12) == "5000 G");
}

}  // namespace
}  // namespace muster
