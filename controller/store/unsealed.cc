#include "controller/store/unsealed.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "common/base/status.h"
#include "common/plan/layout.h"
#include "common/wire/codec.h"
#include "controller/aggregate/aggregator.h"
#include "controller/store/record_codec.h"
#include "controller/store/tally.h"
#include "muster/v1/agent_link.pb.h"

namespace muster {
namespace {

constexpr size_t kAgentsNamed = 4;
constexpr int64_t kForEver = INT64_MAX;
constexpr auto kMeasure = static_cast<int64_t>(PhaseKind::kMeasure);

struct Committed {
  int64_t intervals = 0;
  int64_t newest = -1;
  bool totals = false;
  std::set<uint32_t> initiators;  // of its intervals: each names all that the agent carries
};
using Carriers = std::map<std::string, Committed>;  // agents that carry initiators of the step

absl::StatusOr<Step> PlannedStep(const Plan& plan, uint32_t index) {
  for (const Step& step : plan.steps) {
    if (step.index == index) return step;
  }
  return DamagedRecord(fmt::format("reports of step {}, which the plan does not have", index + 1));
}

// As a run deals them with all its agents there, in the order in which they were written at its start.
absl::StatusOr<PhaseShape> ShapeOf(Database& db, const Plan& plan, const Step& step) {
  std::vector<std::string> agents;
  MUSTER_ASSIGN_OR_RETURN(Statement rows, db.Prepare("SELECT id FROM agents ORDER BY rowid"));
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const bool row, rows.Step());
    if (!row) break;
    agents.push_back(rows.Text(0));
  }
  if (agents.empty()) return DamagedRecord("reports of agents that are not there");
  const auto dealt = DealInitiators(step.initiators, static_cast<uint32_t>(agents.size()));
  PhaseShape shape;
  for (size_t i = 0; i < dealt.size(); ++i) {
    if (!dealt[i].empty()) shape.agents[agents[i]] = dealt[i];
  }
  shape.interval = plan.interval;
  shape.warmup_intervals = step.measure.warmup_intervals;
  shape.window_intervals = step.measure.window_intervals;
  shape.workload = step.measure.workload;
  return shape;
}

// Calls `use` for each committed report of the step, in the order in which they were committed.
template <typename Use>
absl::Status ForEachReport(Database& db, const UnsealedStep& unsealed, Use use) {
  MUSTER_ASSIGN_OR_RETURN(
      Statement rows,
      db.Prepare("SELECT agent, bytes FROM raw WHERE step=?1 AND attempt=?2 AND phase=?3 ORDER BY rowid"));
  rows.Bind(1, unsealed.step).Bind(2, unsealed.attempt).Bind(3, kMeasure);
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const bool row, rows.Step());
    if (!row) return absl::OkStatus();
    v1::ReportMessage report;
    const std::string_view bytes = rows.Blob(1);
    if (!report.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return DamagedRecord("a report");
    MUSTER_RETURN_IF_ERROR(use(rows.Text(0), report));
  }
}

// A run that goes on without lost agents deals its initiators over those that are left. Then what the agents report
// says who carries what, as far as all of the step's initiators are in it; a plan that fits the reports says it better,
// since it knows of agents that have not reported yet too.
void FitToReports(const Carriers& carriers, uint32_t initiators, PhaseShape& shape) {
  std::set<uint32_t> all;
  bool fits = true;
  for (const auto& [agent, committed] : carriers) {
    const auto dealt = shape.agents.find(agent);
    for (const uint32_t initiator : committed.initiators) {
      all.insert(initiator);
      fits = fits && dealt != shape.agents.end() &&
             std::find(dealt->second.begin(), dealt->second.end(), initiator) != dealt->second.end();
    }
  }
  if (fits) return;
  shape.agents.clear();
  for (const auto& [agent, committed] : carriers) {
    if (!committed.initiators.empty()) shape.agents[agent] = {committed.initiators.begin(), committed.initiators.end()};
  }
  // Somebody carries the others and has not reported: no interval is there from all agents.
  std::vector<uint32_t> silent;
  for (uint32_t i = 0; i < initiators; ++i) {
    if (!all.contains(i)) silent.push_back(i);
  }
  if (!silent.empty()) shape.agents["(not reported)"] = std::move(silent);
}

absl::Status Count(const v1::ReportMessage& report, Committed& committed) {
  if (report.has_interval() && !report.interval().drain()) {
    for (const auto& initiator : report.interval().initiators()) committed.initiators.insert(initiator.initiator());
    ++committed.intervals;
    committed.newest = std::max(committed.newest, report.interval().interval());
  }
  committed.totals |= report.has_ended();
  return absl::OkStatus();
}

absl::Status AddReport(const std::string& agent, const v1::ReportMessage& report, PhaseAggregator& aggregator) {
  auto add = [&]() -> absl::Status {
    if (report.has_interval()) {
      MUSTER_ASSIGN_OR_RETURN(const IntervalDelta delta, FromProto(report.interval()));
      return aggregator.Add(agent, delta);
    }
    if (report.has_held()) {
      MUSTER_ASSIGN_OR_RETURN(const HeldHistograms held, FromProto(report.held()));
      return aggregator.AddHeld(agent, held);
    }
    MUSTER_ASSIGN_OR_RETURN(const PhaseTotals totals, FromProto(report.ended().totals()));
    return aggregator.AddTotals(agent, totals);
  };
  absl::Status added = add();
  return added.ok() ? added : DamagedRecord(fmt::format("a report: {}", FormatError(added)));
}

bool AllTotals(const Carriers& carriers) {
  return std::all_of(carriers.begin(), carriers.end(), [](const auto& entry) { return entry.second.totals; });
}

std::string CommittedText(const Carriers& carriers) {
  std::string out;
  if (carriers.size() <= kAgentsNamed) {
    for (const auto& [agent, committed] : carriers) {
      out += fmt::format("{}{} of {}", out.empty() ? "" : ", ", committed.intervals, agent);
    }
    return out;
  }
  const auto [least, most] = std::minmax_element(carriers.begin(), carriers.end(), [](const auto& a, const auto& b) {
    return a.second.intervals < b.second.intervals;
  });
  return fmt::format("{} to {} of each of {} agents", least->second.intervals, most->second.intervals, carriers.size());
}

void Label(const Carriers& carriers, StepResult& result) {
  const StepFigures& figures = result.figures;
  const auto totals = static_cast<size_t>(
      std::count_if(carriers.begin(), carriers.end(), [](const auto& entry) { return entry.second.totals; }));
  const bool checked = AllTotals(carriers);
  result.outcome = StepOutcome::kInterrupted;
  result.message = fmt::format(
      "unsealed: the controller ended before the step did; committed intervals: {}; {}{}", CommittedText(carriers),
      figures.intervals == 0
          ? std::string("no interval of the window is there from all agents, so there are no figures")
          : fmt::format("figures are of the {} of {} intervals of the window that all agents committed",
                        figures.intervals, figures.intervals_asked),
      checked ? "" : ", not checked against totals");
  Check& sums = result.checks.emplace_back();
  sums.name = "sums";
  if (!figures.sums_error.ok()) {
    sums.outcome = CheckOutcome::kFail;
    sums.evidence = FormatError(figures.sums_error);
  } else if (checked) {
    sums.outcome = CheckOutcome::kPass;
    sums.evidence = fmt::format("totals of all {} agents are committed and agree", carriers.size());
  } else {
    sums.evidence = fmt::format("totals of {} of {} agents are committed", totals, carriers.size());
  }
}

}  // namespace

absl::StatusOr<std::vector<UnsealedStep>> UnsealedSteps(Database& db) {
  MUSTER_ASSIGN_OR_RETURN(
      Statement rows, db.Prepare(fmt::format(
                          "SELECT step, max(attempt) FROM tally WHERE tab='raw' AND phase={} AND n>0 AND step NOT IN "
                          "(SELECT step FROM results) GROUP BY step ORDER BY step",
                          kMeasure)));
  std::vector<UnsealedStep> out;
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const bool row, rows.Step());
    if (!row) return out;
    out.push_back({static_cast<uint32_t>(rows.Int(0)), static_cast<uint32_t>(rows.Int(1))});
  }
}

absl::StatusOr<Plan> ReadPlanSteps(Database& db) {
  MUSTER_ASSIGN_OR_RETURN(Statement plan, db.Prepare("SELECT record FROM plan"));
  MUSTER_ASSIGN_OR_RETURN(const bool there, plan.Step());
  if (!there) return Plan();
  return DecodePlanSteps(plan.Blob(0));
}

absl::StatusOr<StepResult> MergeUnsealed(Database& db, const UnsealedStep& unsealed,
                                         const std::function<absl::Status(const FleetInterval&)>& visit) {
  MUSTER_ASSIGN_OR_RETURN(const Plan plan, ReadPlanSteps(db));
  StepResult result;
  MUSTER_ASSIGN_OR_RETURN(result.step, PlannedStep(plan, unsealed.step));
  MUSTER_RETURN_IF_ERROR(CheckTally(db, {"raw", unsealed.step, unsealed.attempt, kMeasure}, TallyDepth::kRows,
                                    fmt::format("step {} ({})", unsealed.step + 1, result.step.name)));
  MUSTER_ASSIGN_OR_RETURN(PhaseShape shape, ShapeOf(db, plan, result.step));
  Carriers carriers;
  MUSTER_RETURN_IF_ERROR(ForEachReport(db, unsealed, [&](const std::string& agent, const v1::ReportMessage& report) {
    return Count(report, carriers[agent]);
  }));
  FitToReports(carriers, result.step.initiators, shape);
  for (const auto& [agent, initiators] : shape.agents) carriers[agent];
  int64_t last = kForEver;
  for (const auto& [agent, committed] : carriers) last = std::min(last, committed.newest);

  // With the totals of all agents the phase is whole. Otherwise only what all of them have committed is merged: parts
  // of later intervals, drains and the totals of some would add up to nothing.
  const bool whole = AllTotals(carriers);
  PhaseAggregator aggregator(shape);
  MUSTER_RETURN_IF_ERROR(
      ForEachReport(db, unsealed, [&](const std::string& agent, const v1::ReportMessage& report) -> absl::Status {
        const bool common = report.has_interval() && !report.interval().drain() && report.interval().interval() <= last;
        if (!whole && !common) return absl::OkStatus();
        MUSTER_RETURN_IF_ERROR(AddReport(agent, report, aggregator));
        for (const FleetInterval& interval : aggregator.TakeComplete()) {
          if (visit) MUSTER_RETURN_IF_ERROR(visit(interval));
        }
        return absl::OkStatus();
      }));
  // Totals that are not there are no mismatch here; all agents are in every interval merged, so none is missing by
  // this.
  for (const auto& [agent, committed] : carriers) {
    if (!whole) aggregator.Lose(agent);
  }
  result.figures = aggregator.Seal(last);
  result.figures.lost_agents.clear();
  Label(carriers, result);
  return result;
}

}  // namespace muster
