#include "controller/top/layout.h"

#include <catch2/catch.hpp>

#include "common/base/status.h"
#include "controller/top/text.h"
#include "tests/unit/top/news.h"

namespace muster {
namespace {

using namespace test;

std::string Text(const TopFrame& frame) {
  std::string text;
  for (const TopLine& line : frame.lines) text += line.text + "\n";
  return text;
}

size_t Count(const std::string& text, const std::string& what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

bool Has(const std::string& text, const std::string& what) {
  return Count(text, what) > 0;
}

TEST_CASE("80x24: fleet, agents with figures and sparkline, help") {
  const TopModel model = Measuring(2);
  const TopFrame frame = DrawTop(model, {.width = 80, .height = 24}, 5 * kSecond);
  const std::string text = Text(frame);
  INFO(text);
  CHECK(Has(text, "2 agents, 1 running, 0 waiting"));
  CHECK(Has(text, "run 20260101-000000-db-0001  step 1/2 db[initiators=1]"));
  CHECK(Has(text, "measure 0:05 of 0:40  ETA 1:35"));
  CHECK(Has(text, "fleet  3.00 k IOPS  12.3 MB/s  p50 87.1 us  p99 1.24 ms  max 3.0 s  out 64"));
  CHECK(Has(text, "failed 0"));
  CHECK(Has(text, "agent-01 running   1.00 k    4.10  50.0 us   999 us      1   25 % █████"));
  CHECK(Has(text, "agent-02 running   2.00 k    8.19"));
  CHECK(Has(frame.lines.back().text, "1-2/2  q quit  a agents  i initiators  l links  s sort: name"));
  CHECK(frame.lines.back().style == TopStyle::kHeader);
}

TEST_CASE("wider terminals show link, lease and clock beside the figures; `l` shows them everywhere") {
  TopModel model = Measuring(2);
  const std::string wide = Text(DrawTop(model, {.width = 200, .height = 60}, kSecond));
  INFO(wide);
  CHECK(Has(wide, "up       8.8 s "));
  CHECK(Has(wide, "-12.3 us +- 3.40 us"));
  CHECK(Has(wide, "clock offset +- error"));
  model.Press(TopKey::kLinks);
  const std::string links = Text(DrawTop(model, {.width = 60, .height = 15}, kSecond));
  INFO(links);
  CHECK(Has(links, "-12.3 us +- 3.40 us"));
  CHECK(Has(links, "8.8 s"));
}

TEST_CASE("initiators are rows by key") {
  TopModel model = Measuring(2);
  model.Press(TopKey::kInitiators);
  const std::string text = Text(DrawTop(model, {.width = 80, .height = 24}, kSecond));
  INFO(text);
  CHECK(Has(text, "        0 agent-01     500    2.05  50.0 us   900 us      4 █████"));
  CHECK(Has(text, "        3 agent-02"));
  CHECK(Has(text, "1-4/4"));
}

TEST_CASE("every frame is exactly as large as the terminal, in every size, view and number of agents") {
  for (const int agents : {1, 64}) {
    for (const TopKey view : {TopKey::kAgents, TopKey::kInitiators, TopKey::kLinks}) {
      TopModel model = Measuring(agents, 200);
      model.Press(view);
      for (const bool utf8 : {true, false}) {
        for (const auto& [width, height] : std::vector<std::pair<size_t, size_t>>{
                 {80, 24}, {60, 15}, {200, 60}, {40, 10}, {20, 6}, {1, 1}, {500, 3}, {13, 100}}) {
          INFO(width << "x" << height << " agents " << agents << " view " << static_cast<int>(view));
          const TopFrame frame = DrawTop(model, {.width = width, .height = height, .utf8 = utf8}, 3 * kSecond);
          CHECK(frame.lines.size() == height);
          for (const TopLine& line : frame.lines) {
            CHECK(TopColumns(line.text) <= width);
            CHECK(TopClean(line.text, utf8) == line.text);
          }
          if (height < 6) continue;
          CHECK(frame.rows >= 1);
          if (width >= 20) CHECK(Has(Text(frame), view == TopKey::kInitiators ? "initiator" : "agent-01"));
        }
      }
    }
  }
}

TEST_CASE("60x15 keeps the figures that matter most and goes without the others") {
  const std::string text = Text(DrawTop(Measuring(1), {.width = 60, .height = 15}, 5 * kSecond));
  INFO(text);
  CHECK(Has(text, "fleet  3.00 k") == false);
  CHECK(Has(text, "fleet  1.00 k IOPS  4.10 MB/s  p50 87.1 us  p99 1.24 ms"));
  CHECK(Has(text, "       max 3.0 s  out 64  failed 0"));
  CHECK(Has(text, "agent    state       IOPS    MB/s"));
  CHECK(Has(text, "p99"));
  CHECK_FALSE(Has(text, "lease"));
}

TEST_CASE("64 agents scroll through a small terminal") {
  TopModel model = Measuring(64);
  const TopSize size{.width = 80, .height = 24};
  TopFrame frame = DrawTop(model, size, kSecond);
  model.SetPage(frame.rows);
  CHECK(Count(Text(frame), "agent-") == frame.rows);
  CHECK(frame.rows >= 14);
  model.Press(TopKey::kEnd);
  frame = DrawTop(model, size, kSecond);
  CHECK(Has(Text(frame), "agent-64"));
  CHECK_FALSE(Has(Text(frame), "agent-01"));
  CHECK(Has(frame.lines.back().text, "/64"));
  CHECK(Count(Text(DrawTop(model, {.width = 200, .height = 100}, kSecond)), "agent-") == 64);
}

TEST_CASE("without UTF-8 everything is ASCII") {
  TopModel model = Measuring(2, 100);
  const std::string text = Text(DrawTop(model, {.width = 80, .height = 24, .utf8 = false}, kSecond));
  INFO(text);
  for (const char c : text) CHECK(static_cast<unsigned char>(c) < 0x80);
  CHECK(Has(text, "@@@@@@@@"));
}

TEST_CASE("figures that are not there are not zero") {
  TopModel model = Measuring(1);
  v1::RunEvent held = Live(7, 1);
  held.mutable_live()->set_held(true);
  for (auto& agent : *held.mutable_live()->mutable_agents()) {
    agent.clear_p50_ns();
    agent.clear_p99_ns();
  }
  model.Event(held, 8 * kSecond);
  const std::string text = Text(DrawTop(model, {.width = 80, .height = 24}, 8 * kSecond));
  INFO(text);
  CHECK(Has(text, "p50 -  p99 -  max 3.0 s"));
  CHECK(Has(text, "4.10        -        -      1"));
}

TEST_CASE("between runs the agents and the queue are shown") {
  TopModel model("unix:/c");
  v1::RunList runs = Runs("20260101-w", v1::RUN_STATE_WAITING);
  runs.mutable_runs(0)->set_since_ns(75 * kSecond);
  runs.mutable_runs(0)->add_waits_for("agents: 1 of the 2 that match rack=b are there");
  AddRun(runs, "20260101-e", v1::RUN_STATE_ENDED);
  runs.mutable_runs(1)->set_outcome("complete");
  model.There(Agents(2), runs, 0);
  const std::string text = Text(DrawTop(model, {.width = 100, .height = 24}, 0));
  INFO(text);
  CHECK(Has(text, "run 20260101-w  waits 1:15 for agents: 1 of the 2 that match rack=b are there"));
  CHECK(Has(text, "run 20260101-e  ended 0:00 ago: complete"));
  CHECK(Count(text, " idle ") == 2);
  // However many wait, the agents are seen.
  for (int i = 0; i < 100; ++i) AddRun(runs, "run-" + std::to_string(i), v1::RUN_STATE_WAITING);
  model.There(Agents(2), runs, 0);
  const std::string many = Text(DrawTop(model, {.width = 80, .height = 24}, 0));
  INFO(many);
  CHECK(Count(many, " idle ") == 2);
  CHECK(Has(many, "more runs"));
}

TEST_CASE("a lost controller is said, with the time since") {
  TopModel model = Measuring(2);
  model.Lost(MakeError(absl::StatusCode::kUnavailable, {.code = "CONTROLLER_NOT_THERE", .message = "nobody answers"}),
             10 * kSecond);
  const std::string text = Text(DrawTop(model, {.width = 80, .height = 24}, 75 * kSecond));
  INFO(text);
  CHECK(Has(text, "controller lost for 1:05, waiting for it:"));
  CHECK(Has(text, "nobody answers"));
  CHECK_FALSE(Has(text, "agent-01"));
}

TEST_CASE("text that could break the columns is made harmless") {
  CHECK(TopClean("a\x1b[2Jb", true) == "a[2Jb");
  CHECK(TopClean("größe", true) == "größe");
  CHECK(TopClean("größe", false) == "gr??e");
  CHECK(TopClean("表\xff", true) == "??");
  CHECK(TopClean("a\tb\xc2\x9b", true) == "a b");
  CHECK(TopFit("größe", 3) == "grö");
  CHECK(TopFit("ab", 4, true) == "  ab");
  CHECK(TopWrap({"one", "two", "three"}, 9, 2) == std::vector<std::string>{"one  two", "  three"});
  CHECK(TopMegabytes(50'600'000) == "50.6");
  CHECK(TopSigned(-12'300) == "-12.3 us");
}

}  // namespace
}  // namespace muster
