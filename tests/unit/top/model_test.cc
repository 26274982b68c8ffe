#include <catch2/catch.hpp>

#include "common/base/status.h"
#include "tests/unit/top/news.h"

namespace muster {
namespace {

using namespace test;

std::vector<std::string> Names(const TopModel& model) {
  std::vector<std::string> names;
  for (const TopRow& row : model.Rows(0)) names.push_back(row.name);
  return names;
}

TEST_CASE("a run's events become its step, phase, estimate and figures") {
  const TopModel model = Measuring(2);
  REQUIRE(model.run());
  const TopRun& run = *model.run();
  CHECK(run.step == 1);
  CHECK(run.phase == PhaseKind::kMeasure);
  CHECK(run.Left(10 * kSecond) == 90 * kSecond);  // 30 s of the phase, a minute of the second step
  CHECK(run.Left(50 * kSecond) == 60 * kSecond);
  CHECK(run.live->iops() == 3000);
  CHECK(run.live->initiators().empty());
  const auto rows = model.Rows(5 * kSecond);
  REQUIRE(rows.size() == 2);
  CHECK(rows[1].name == "agent-02");
  CHECK(rows[1].state == "running");
  CHECK(rows[1].iops == 2000);
  CHECK(rows[1].latency->p99 == 998'000);
  CHECK(rows[1].lease_left == 4'800 * kMillisecond);
  CHECK(rows[1].offset == -12'300);
  CHECK(rows[1].history->Columns(10).size() == 5);
}

TEST_CASE("somebody who comes later sees the phase where it is") {
  TopModel model("unix:/c");
  model.Watching(kRun);
  model.Event(Planned(kRun), 100 * kSecond);
  model.Event(Measure(1, 40 * kSecond, 15 * kSecond), 100 * kSecond);
  CHECK(model.run()->Left(100 * kSecond) == 25 * kSecond);
}

TEST_CASE("sorting by a figure puts the largest first, and what has none last") {
  TopModel model = Measuring(3);
  model.There(Agents(4, kRun), Runs(kRun), 0);  // one that carries nothing
  CHECK(Names(model) == std::vector<std::string>{"agent-01", "agent-02", "agent-03", "agent-04"});
  model.Press(TopKey::kSort);
  CHECK(model.sort() == TopSort::kIops);
  CHECK(Names(model) == std::vector<std::string>{"agent-03", "agent-02", "agent-01", "agent-04"});
  model.Press(TopKey::kReverse);
  CHECK(Names(model) == std::vector<std::string>{"agent-04", "agent-01", "agent-02", "agent-03"});
  model.Press(TopKey::kReverse);
  for (int i = 0; i < 3; ++i) model.Press(TopKey::kSort);
  CHECK(model.sort() == TopSort::kP99);
  CHECK(Names(model) == std::vector<std::string>{"agent-01", "agent-02", "agent-03", "agent-04"});
  for (int i = 0; i < 3; ++i) model.Press(TopKey::kSort);
  CHECK(model.sort() == TopSort::kName);
}

TEST_CASE("scrolling stays within the rows, also when they or the page change") {
  TopModel model = Measuring(64);
  model.SetPage(10);
  model.Press(TopKey::kUp);
  CHECK(model.scroll() == 0);
  model.Press(TopKey::kDown);
  model.Press(TopKey::kPageDown);
  CHECK(model.scroll() == 11);
  model.Press(TopKey::kEnd);
  CHECK(model.scroll() == 54);
  model.Press(TopKey::kDown);
  CHECK(model.scroll() == 54);
  model.SetPage(60);
  CHECK(model.scroll() == 4);
  model.Press(TopKey::kPageUp);
  CHECK(model.scroll() == 0);
  model.Press(TopKey::kEnd);
  model.Press(TopKey::kInitiators);
  CHECK(model.scroll() == 0);
  CHECK(model.Rows(0).size() == 128);
  model.Press(TopKey::kEnd);
  CHECK(model.scroll() == 68);
  model.Event(Measure(1), 10 * kSecond);  // numbers of a step end with it
  CHECK(model.Rows(0).empty());
  CHECK(model.scroll() == 0);
}

TEST_CASE("initiators keep their last figures until new ones come") {
  TopModel model = Measuring(1);
  model.Press(TopKey::kInitiators);
  v1::RunEvent plain = Live(9, 1);
  plain.mutable_live()->clear_initiators();
  model.Event(plain, 9 * kSecond);
  REQUIRE(model.Rows(0).size() == 2);
  CHECK(model.Rows(0)[1].number == 1);
  CHECK(model.Rows(0)[1].agent == "agent-01");
  CHECK(model.Rows(0)[1].latency->p99 == 900'000);
  // A held interval has no percentiles, and none are made up.
  v1::RunEvent held = Live(10, 1);
  for (auto& initiator : *held.mutable_live()->mutable_initiators()) {
    initiator.clear_p50_ns();
    initiator.clear_p99_ns();
  }
  model.Event(held, 10 * kSecond);
  CHECK_FALSE(model.Rows(0)[0].latency);
  CHECK(model.Rows(0)[0].iops == 500);
}

TEST_CASE("an agent of the run that is gone is shown as lost, a silent one as silent") {
  TopModel model = Measuring(3);
  v1::RunEvent live = Live(6, 3);
  live.mutable_live()->mutable_agents(1)->set_silent(true);
  model.Event(live, 7 * kSecond);
  model.There(Agents(2, kRun), Runs(kRun), 7 * kSecond);
  const auto rows = model.Rows(7 * kSecond);
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].state == "running");
  CHECK(rows[1].state == "SILENT");
  CHECK(rows[2].state == "LOST");
  CHECK(rows[2].bad);
  CHECK_FALSE(rows[2].linked);
}

TEST_CASE("an agent whose link is down is not lost: its lease runs") {
  TopModel model = Measuring(2);
  v1::AgentList list = Agents(2, kRun);
  list.mutable_agents(1)->set_link("down");
  list.mutable_agents(1)->set_link_quiet_ns(2 * kSecond);
  list.mutable_agents(1)->set_lease_left_ns(7 * kSecond);
  model.There(list, Runs(kRun), 7 * kSecond);
  const auto rows = model.Rows(8 * kSecond);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].state == "running");
  CHECK(rows[1].state == "NO LINK");
  CHECK(rows[1].bad);
  CHECK(rows[1].linked);
  CHECK(rows[1].link == "down");
  CHECK(rows[1].lease_left == 6 * kSecond);
}

TEST_CASE("the run watched stays until it ends, then it is the newest that goes on") {
  TopModel model("unix:/c");
  v1::RunList runs = Runs("20260101-b");
  AddRun(runs, "20260102-c", v1::RUN_STATE_ENDING);
  AddRun(runs, "20260103-d", v1::RUN_STATE_WAITING);
  model.There(Agents(1), runs, 0);
  CHECK(model.Choice() == "20260102-c");
  model.Watching("20260101-b");
  CHECK(model.Choice() == "20260101-b");
  v1::RunEvent end;
  end.mutable_ended()->set_outcome("complete");
  model.Event(end, kSecond);
  CHECK(model.Choice() == "20260102-c");
  CHECK(model.run()->outcome == "complete");
  model.There(Agents(1), Runs("20260101-b"), 0);
  CHECK(model.Choice().empty());
}

TEST_CASE("a lost controller leaves nothing that could be taken for news, and comes back") {
  TopModel model = Measuring(2);
  const auto why = MakeError(absl::StatusCode::kUnavailable, {.code = "CONTROLLER_LOST", .message = "gone"});
  model.Lost(why, 20 * kSecond);
  model.Lost(why, 25 * kSecond);
  CHECK(model.lost_since() == 20 * kSecond);
  CHECK(model.Rows(0).empty());
  CHECK_FALSE(model.run());
  CHECK(model.Choice().empty());
  model.There(Agents(1), v1::RunList(), 30 * kSecond);
  CHECK_FALSE(model.lost());
  CHECK(model.Rows(0).size() == 1);
}

TEST_CASE("a history is one point a second and keeps the last minutes") {
  TopHistory history;
  CHECK(history.Columns(5).empty());
  for (int i = 0; i < 10; ++i) history.Add(i * 100 * kMillisecond, i);
  CHECK(history.Columns(5) == std::vector<double>{4.5});
  for (int i = 1; i < 4; ++i) history.Add(i * kSecond, 10 * i);
  CHECK(history.Columns(4) == std::vector<double>{4.5, 10, 20, 30});
  CHECK(history.Columns(2) == std::vector<double>{7.25, 25});
  CHECK(TopSparkline(history, 4, true) == "▂▃▆█");
  CHECK(TopSparkline(history, 4, false) == ":-*@");
  for (int i = 4; i < 1000; ++i) history.Add(i * kSecond, i);
  CHECK(history.Columns(1000).size() == TopHistory::kPoints);
  CHECK(history.Columns(1000).back() == 999);
  const auto before = history.Columns(20);
  CHECK(before.size() == 20);
  history.Add(1000 * kSecond, 7);
  // Columns wander to the left, they do not change.
  const auto after = history.Columns(20);
  CHECK((after[5] == before[5] || after[5] == before[6]));
}

}  // namespace
}  // namespace muster
