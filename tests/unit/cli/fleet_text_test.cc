#include "controller/cli/fleet_text.h"

#include <catch2/catch.hpp>

namespace muster {
namespace {

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("agents: one row each, what is not known is a dash, refusals below") {
  v1::AgentList list;
  CHECK(Has(AgentsText(list), "no agent is there"));
  v1::AgentState& busy = *list.add_agents();
  busy.set_id("a1");
  busy.set_hostname("nas1");
  busy.set_run("20261130-1-x-ab12");
  busy.set_link("up");
  busy.set_lease_left_ns(9'300'000'000);
  busy.set_clock_known(true);
  busy.set_offset_ns(-12'300);
  busy.set_error_ns(45'000);
  busy.set_build("0.1.0");
  v1::Fact& label = *busy.add_labels();
  label.set_name("rack");
  label.set_value("b");
  busy.add_capabilities("null");
  busy.add_capabilities("uring");
  v1::AgentState& away = *list.add_agents();
  away.set_id("a2");
  away.set_link("down");
  away.set_link_quiet_ns(3'400'000'000);
  away.set_lease_left_ns(6'600'000'000);
  list.add_refusals("agent a3 on nas2: too old [API_VERSION]");
  const std::string text = AgentsText(list);
  INFO(text);
  for (const char* part : {"a1     nas1  in run 20261130-1-x-ab12  up                9.3", "-12.3 us", "45.0 us",
                           "rack=b", "null,uring", "refused: agent a3 on nas2: too old [API_VERSION]\n"}) {
    CHECK(Has(text, part));
  }
  const size_t second = text.find("\na2 ");
  REQUIRE(second != std::string::npos);
  const std::string row = text.substr(second, text.find('\n', second + 1) - second);
  for (const char* part : {"idle", "down for 3s", "6.6"}) CHECK(Has(row, part));
}

v1::RunStatus& Add(v1::RunList& list, const std::string& id, v1::RunState state) {
  v1::RunStatus& run = *list.add_runs();
  run.set_run(id);
  run.set_state(state);
  run.set_steps(3);
  return run;
}

TEST_CASE("runs: progress of those that go on, reasons of those that wait, the last of those that ended") {
  v1::RunList list;
  CHECK(RunsText(list) == "no runs\n");
  v1::RunStatus& running = Add(list, "r1", v1::RUN_STATE_RUNNING);
  running.set_step(2);
  running.set_step_name("db[load=1T1Q]");
  running.set_phase(v1::PHASE_KIND_FILL);
  running.set_progress(0.254);
  running.set_left_ns(90'500'000'000);
  running.set_iops(12'345);
  running.add_agents("a1");
  v1::RunStatus& waiting = Add(list, "r2", v1::RUN_STATE_WAITING);
  waiting.add_waits_for("agent a1, used by run r1");
  waiting.add_waits_for("target LUN 0 of iqn.x, used by run r1");
  for (int i = 0; i < 7; ++i) Add(list, "e" + std::to_string(i), v1::RUN_STATE_ENDED).set_outcome("complete");
  const std::string text = RunsText(list);
  INFO(text);
  for (const char* part :
       {"2/3 db[load=1T1Q]", "fill", "25 %", "1m30s", "12.3 k", "r2   waiting",
        "run r2 waits for agent a1, used by run r1\n", "run r2 waits for target LUN 0 of iqn.x, used by run r1\n",
        "e4   complete", "2 more have ended"}) {
    CHECK(Has(text, part));
  }
  CHECK_FALSE(Has(text, "e5"));
  list.set_draining(true);
  CHECK(Has(RunsText(list), "takes no runs"));
}

}  // namespace
}  // namespace muster
