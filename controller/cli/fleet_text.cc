#include "controller/cli/fleet_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/units.h"
#include "common/wire/codec.h"
#include "controller/cli/live_view.h"
#include "controller/report/table.h"

namespace muster {
namespace {

constexpr int kEndedShown = 5;

std::string LabelsOf(const v1::AgentState& agent) {
  std::string text;
  for (const v1::Fact& label : agent.labels()) text += (text.empty() ? "" : ",") + label.name() + "=" + label.value();
  return text.empty() ? "-" : text;
}

std::string Joined(const google::protobuf::RepeatedPtrField<std::string>& parts, const char* separator) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : separator) + part;
  return text.empty() ? "-" : text;
}

// "+12.3 us": signed, as people read a clock's offset.
std::string Signed(int64_t nanos) {
  return (nanos < 0 ? "-" : "+") + FormatLatency(static_cast<double>(nanos < 0 ? -nanos : nanos));
}

std::string Seconds(int64_t nanos) {
  return FormatDuration(std::max<Nanos>(0, nanos) / kSecond * kSecond);
}

std::string StateText(const v1::RunStatus& run) {
  switch (run.state()) {
    case v1::RUN_STATE_WAITING:
      return "waiting";
    case v1::RUN_STATE_RUNNING:
      return "running";
    case v1::RUN_STATE_ENDING:
      return "ending";
    default:
      return run.outcome();
  }
}

std::string PhaseText(const v1::RunStatus& run) {
  const auto kind = FromProto(run.phase());
  return kind.ok() ? std::string(PhaseKindName(*kind)) : "-";
}

// "up", "silent for 6s", "down for 3s": the lease beside it says how long it may yet last.
std::string LinkText(const v1::AgentState& agent) {
  return agent.link_quiet_ns() > 0 ? agent.link() + " for " + Seconds(agent.link_quiet_ns()) : agent.link();
}

}  // namespace

std::string AgentsText(const v1::AgentList& agents) {
  std::string out;
  if (agents.agents().empty()) {
    out = "no agent is there; start one with `muster-agent --controller ADDRESS`\n";
  } else {
    using Align = Table::Align;
    Table table({{"agent", Align::kLeft},
                 {"host", Align::kLeft},
                 {"state", Align::kLeft},
                 {"link", Align::kLeft},
                 {"lease left"},
                 {"clock offset"},
                 {"error"},
                 {"build", Align::kLeft},
                 {"labels", Align::kLeft},
                 {"capabilities", Align::kLeft}});
    for (const v1::AgentState& agent : agents.agents()) {
      table.Add({agent.id(), agent.hostname(), agent.run().empty() ? "idle" : "in run " + agent.run(), LinkText(agent),
                 FormatLatency(static_cast<double>(std::max<int64_t>(0, agent.lease_left_ns()))),
                 agent.clock_known() ? Signed(agent.offset_ns()) : "-",
                 agent.clock_known() ? FormatLatency(static_cast<double>(agent.error_ns())) : "-", agent.build(),
                 LabelsOf(agent), Joined(agent.capabilities(), ",")});
    }
    out = table.Text();
  }
  for (const std::string& refusal : agents.refusals()) out += "refused: " + refusal + "\n";
  return out;
}

std::string RunsText(const v1::RunList& runs) {
  using Align = Table::Align;
  Table table({{"run", Align::kLeft},
               {"state", Align::kLeft},
               {"since"},
               {"step", Align::kLeft},
               {"phase", Align::kLeft},
               {"done"},
               {"left"},
               {"IOPS"},
               {"agents", Align::kLeft}});
  std::string waits;
  int ended = 0, left_out = 0;
  for (const v1::RunStatus& run : runs.runs()) {
    const bool over = run.state() == v1::RUN_STATE_ENDED;
    const bool waiting = run.state() == v1::RUN_STATE_WAITING;
    if (over && ++ended > kEndedShown) {
      ++left_out;
      continue;
    }
    table.Add({run.run(), StateText(run), Seconds(run.since_ns()),
               run.step() == 0 ? fmt::format("-/{}", run.steps())
                               : fmt::format("{}/{} {}", run.step(), run.steps(), run.step_name()),
               over || waiting ? "-" : PhaseText(run), over ? "-" : fmt::format("{:.0f} %", 100 * run.progress()),
               over ? "-" : Seconds(run.left_ns()), over || waiting || run.iops() == 0 ? "-" : FormatCount(run.iops()),
               Joined(run.agents(), ",")});
    for (const std::string& reason : run.waits_for()) {
      waits += fmt::format("run {} waits for {}\n", run.run(), reason);
    }
  }
  std::string out = table.empty() ? "no runs\n" : table.Text();
  out += waits;
  if (left_out > 0) out += fmt::format("{} more have ended; --json lists them\n", left_out);
  if (runs.draining()) out += "the controller is ending and takes no runs\n";
  return out;
}

}  // namespace muster
