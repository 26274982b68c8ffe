#pragma once
#include <fmt/format.h>

#include <string>
#include <vector>

#include "controller/top/model.h"

// What a controller says, built by hand.
namespace muster::test {

inline std::string AgentName(int i) {
  return fmt::format("agent-{:02}", i);
}

inline v1::AgentList Agents(int count, const std::string& run = "") {
  v1::AgentList list;
  for (int i = 1; i <= count; ++i) {
    v1::AgentState& agent = *list.add_agents();
    agent.set_id(AgentName(i));
    agent.set_hostname("host" + std::to_string(i));
    agent.set_run(run);
    agent.set_link("up");
    agent.set_lease_left_ns(9'800 * kMillisecond);
    agent.set_clock_known(true);
    agent.set_offset_ns(-12'300);
    agent.set_error_ns(3'400);
    agent.set_build("0.1.0 abc");
  }
  return list;
}

inline void AddRun(v1::RunList& list, const std::string& id, v1::RunState state) {
  v1::RunStatus& run = *list.add_runs();
  run.set_run(id);
  run.set_campaign("db");
  run.set_state(state);
}

inline v1::RunList Runs(const std::string& id, v1::RunState state = v1::RUN_STATE_RUNNING) {
  v1::RunList list;
  AddRun(list, id, state);
  return list;
}

inline v1::RunEvent Planned(const std::string& run, int steps = 2) {
  v1::RunEvent event;
  event.mutable_planned()->set_run(run);
  event.mutable_planned()->set_campaign("db");
  for (int i = 0; i < steps; ++i) {
    v1::PlannedStep& step = *event.mutable_planned()->add_steps();
    step.set_index(static_cast<uint32_t>(i));
    step.set_name("db[initiators=" + std::to_string(i + 1) + "]");
    step.set_estimated_ns(60 * kSecond);
  }
  return event;
}

inline v1::RunEvent Began(int agents) {
  v1::RunEvent event;
  event.mutable_began()->set_path("/runs/r/run.db");
  for (int i = 1; i <= agents; ++i) event.mutable_began()->add_agents(AgentName(i));
  return event;
}

inline v1::RunEvent Measure(uint32_t step, Nanos expected = 40 * kSecond, Nanos elapsed = 0) {
  v1::RunEvent event;
  event.mutable_phase()->set_step(step);
  event.mutable_phase()->set_phase(v1::PHASE_KIND_MEASURE);
  event.mutable_phase()->set_expected_ns(expected);
  event.mutable_phase()->set_elapsed_ns(elapsed);
  return event;
}

// Each agent i does i * 1000 operations a second at a p99 that falls with i; two initiators each.
inline v1::RunEvent Live(int64_t interval, int agents) {
  v1::RunEvent event;
  v1::LiveNews& live = *event.mutable_live();
  live.set_interval(interval);
  live.set_in_window(true);
  live.set_iops(1000.0 * agents * (agents + 1) / 2);
  live.set_bytes_per_second(live.iops() * 4096);
  live.set_p50_ns(87'100);
  live.set_p99_ns(1'240'000);
  live.set_max_ns(3 * kSecond);
  live.set_outstanding(64);
  for (int i = 1; i <= agents; ++i) {
    v1::AgentLive& agent = *live.add_agents();
    agent.set_agent(AgentName(i));
    agent.set_interval(interval);
    agent.set_iops(1000.0 * i);
    agent.set_bytes_per_second(4'096'000.0 * i);
    agent.set_outstanding(static_cast<uint64_t>(i));
    agent.set_cpu(0.25);
    agent.set_p50_ns(50'000);
    agent.set_p99_ns(1'000'000 - i * 1'000);
    for (int k = 0; k < 2; ++k) {
      v1::InitiatorLive& initiator = *live.add_initiators();
      initiator.set_initiator(static_cast<uint32_t>(2 * (i - 1) + k));
      initiator.set_agent(AgentName(i));
      initiator.set_iops(500.0 * i);
      initiator.set_bytes_per_second(2'048'000.0 * i);
      initiator.set_outstanding(4);
      initiator.set_p50_ns(50'000);
      initiator.set_p99_ns(900'000);
    }
  }
  return event;
}

constexpr char kRun[] = "20260101-000000-db-0001";

// A run that measures on so many agents, `intervals` seconds after its phase began at 0.
inline TopModel Measuring(int agents, int intervals = 5) {
  TopModel model("unix:/run/muster/control.sock");
  model.There(Agents(agents, kRun), Runs(kRun), 0);
  model.Watching(kRun);
  model.Event(Planned(kRun), 0);
  model.Event(Began(agents), 0);
  model.Event(Measure(0), 0);
  for (int i = 0; i < intervals; ++i) model.Event(Live(i, agents), (i + 1) * kSecond);
  return model;
}

}  // namespace muster::test
