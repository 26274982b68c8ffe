#include <fmt/format.h>

#include <algorithm>

#include "controller/report/cells.h"
#include "controller/report/derived.h"
#include "controller/report/report.h"
#include "controller/report/table.h"
#include "controller/report/text.h"

namespace muster {
namespace {

using Align = Table::Align;

std::vector<std::string> StepRow(const StepResult& result) {
  const StepFigures& figures = result.figures;
  std::vector<std::string> row = {result.step.name, std::string(StepOutcomeName(result.outcome)),
                                  std::to_string(result.step.initiators), LoadText(result.step.measure.workload)};
  if (figures.intervals == 0 || figures.fleet.kinds.empty()) {
    row.resize(12, "-");
    return row;
  }
  const KindFigures& all = figures.fleet.kinds.front();
  row.push_back(CountCell(PerSecond(all.completed, figures.window())));
  row.push_back(MegabytesCell(PerSecond(all.bytes, figures.window())));
  row.push_back(LatencyCell(all.response, all.response.moments().Mean()));
  for (double q : {0.5, 0.99, 0.999}) row.push_back(PercentileCell(all.response, q));
  row.push_back(MaxCell(all));
  row.push_back(figures.fleet.asked_depth > 0 ? fmt::format("{}/{}", DepthCell(figures.fleet.achieved_depth),
                                                            DepthCell(figures.fleet.asked_depth))
                                              : DepthCell(figures.fleet.achieved_depth));
  return row;
}

}  // namespace

std::string FormatRunList(const std::vector<RunSummary>& runs) {
  if (runs.empty()) return "no runs\n";
  Table table({{"run", Align::kLeft},
               {"started", Align::kLeft},
               {"campaign", Align::kLeft},
               {"outcome", Align::kLeft},
               {"steps"},
               {"valid"},
               {"invalid"},
               {"message", Align::kLeft}});
  for (const RunSummary& run : runs) {
    table.Add({run.id, TimeCell(run.started_wall_micros), run.campaign_name, run.outcome, std::to_string(run.steps),
               std::to_string(run.valid), std::to_string(run.invalid), RunMessage(run)});
  }
  return table.Text();
}

std::string ResultsTableText(const std::vector<StepResult>& steps) {
  if (steps.empty()) return "no results\n";
  Table table({{"step", Align::kLeft},
               {"outcome", Align::kLeft},
               {"init"},
               {"load", Align::kLeft},
               {"IOPS"},
               {"MB/s"},
               {"mean"},
               {"p50"},
               {"p99"},
               {"p99.9"},
               {"max"},
               {"depth"}});
  for (const StepResult& step : steps) table.Add(StepRow(step));
  std::string out = table.Text();
  for (const StepResult& step : steps) {
    for (const std::string& reason : Reasons(step)) {
      out += Printable(fmt::format("{} {}: {}", step.step.name, StepOutcomeName(step.outcome), reason)) + "\n";
    }
  }
  // One line for each note and target, whatever the number of steps.
  std::vector<std::pair<std::string, std::string>> said;
  for (const StepResult& step : steps) {
    for (const std::string& note : Notes(step)) {
      std::pair<std::string, std::string> line(step.step.target, note);
      if (std::find(said.begin(), said.end(), line) == said.end()) said.push_back(std::move(line));
    }
  }
  for (const auto& [target, note] : said) out += Printable(fmt::format("note on {}: {}", target, note)) + "\n";
  return out;
}

std::vector<std::string> Notes(const StepResult& result) {
  std::vector<std::string> out;
  for (const auto& [name, value] : result.facts) {
    // "local-1: measure note", "local-1: luns: note"
    if (!name.ends_with(" note") || std::find(out.begin(), out.end(), value) != out.end()) continue;
    out.push_back(value);
  }
  return out;
}

std::vector<std::string> Reasons(const StepResult& result) {
  if (result.outcome == StepOutcome::kValid) return {};
  std::vector<std::string> out;
  if (!result.message.empty()) out.push_back(result.message);
  if (result.outcome == StepOutcome::kSkipped && result.message.empty()) out.push_back(result.step.skip_reason);
  for (const Check& check : result.checks) {
    if (check.outcome == CheckOutcome::kFail) out.push_back(fmt::format("{}: {}", check.name, check.evidence));
  }
  return out;
}

absl::StatusOr<std::string> FormatResultsTable(RunReader& reader) {
  auto results = reader.Results();
  if (!results.ok()) return results.status();
  return ResultsTableText(*results);
}

}  // namespace muster
