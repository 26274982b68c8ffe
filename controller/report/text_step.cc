#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "common/base/native_code.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "controller/report/cells.h"
#include "controller/report/derived.h"
#include "controller/report/sparkline.h"
#include "controller/report/table.h"
#include "controller/report/text.h"

namespace muster {
namespace {

// Facts are named "AGENT: WHAT". What several agents say alike is one line: "local-1, local-2: WHAT: VALUE".
std::vector<std::string> FactLines(const std::vector<std::pair<std::string, std::string>>& facts) {
  std::vector<std::pair<std::string, std::string>> lines;  // "WHAT: VALUE", who says so
  std::map<std::string, size_t, std::less<>> at;
  for (const auto& [name, value] : facts) {
    const size_t colon = name.find(": ");
    const std::string who = colon == std::string::npos ? "" : name.substr(0, colon);
    const std::string what = colon == std::string::npos ? name : name.substr(colon + 2);
    std::string said = fmt::format("{}: {}", what, value);
    auto [found, fresh] = at.try_emplace(said, lines.size());
    if (fresh) {
      lines.emplace_back(std::move(said), who);
    } else if (!who.empty()) {
      lines[found->second].second += ", " + who;
    }
  }
  std::vector<std::string> out;
  out.reserve(lines.size());
  for (const auto& [said, who] : lines) out.push_back(who.empty() ? said : fmt::format("{}: {}", who, said));
  return out;
}

using Align = Table::Align;
constexpr size_t kStragglersShown = 8;
constexpr size_t kMissingShown = 16;

std::string Describe(const StepResult& result) {
  const Workload& w = result.step.measure.workload;
  const StepFigures& figures = result.figures;
  std::string out = fmt::format("{} {} {} read", FormatSize(w.block), PatternName(w.pattern), FormatPercent(w.read));
  if (w.trim > 0) out += fmt::format(", {} trim", FormatPercent(w.trim));
  if (w.flush_every > 0) out += fmt::format(", a flush every {} writes", w.flush_every);
  const char* whose = w.pacing == Pacing::kClosed     ? " an initiator"
                      : w.rate_per == RatePer::kFleet ? " over the fleet"
                                                      : "";
  out +=
      fmt::format("; load {}{}; {} {} on target {}; window {} of {} intervals of {} after {} of warm-up", LoadText(w),
                  whose, FormatSize(w.size), LayoutName(w.layout), result.step.target, figures.intervals,
                  figures.intervals_asked, FormatDuration(figures.interval), figures.first_interval);
  return Printable(out);
}

std::string Label(const GroupFigures& group) {
  return group.agent.empty() ? group.name : fmt::format("{} ({})", group.name, group.agent);
}

template <typename Visit>
void ForEachRow(const StepFigures& figures, Visit visit) {
  auto group = [&](const GroupFigures& g) {
    bool first = true;
    for (const KindFigures& kind : g.kinds) {
      // A workload of one kind has nothing to pool.
      if (g.kinds.size() == 2 && !kind.kind.has_value()) continue;
      visit(g, kind, first);
      first = false;
    }
  };
  group(figures.fleet);
  for (const GroupFigures& initiator : figures.initiators) group(initiator);
}

std::string ResponseTable(const StepFigures& figures) {
  Table table({{"", Align::kLeft},
               {"kind", Align::kLeft},
               {"IOPS"},
               {"MB/s"},
               {"mean"},
               {"sd"},
               {"p50"},
               {"p90"},
               {"p99"},
               {"p99.9"},
               {"p99.99"},
               {"max"},
               {"failed"}},
              "  ");
  ForEachRow(figures, [&](const GroupFigures& group, const KindFigures& kind, bool first) {
    const Histogram& response = kind.response;
    table.Add({first ? Label(group) : "", std::string(KindLabel(kind.kind)),
               CountCell(PerSecond(kind.completed, figures.window())),
               MegabytesCell(PerSecond(kind.bytes, figures.window())), LatencyCell(response, response.moments().Mean()),
               LatencyCell(response, response.moments().StandardDeviation()), PercentileCell(response, 0.5),
               PercentileCell(response, 0.9), PercentileCell(response, 0.99), PercentileCell(response, 0.999),
               PercentileCell(response, 0.9999), MaxCell(kind), CountCell(static_cast<double>(kind.failed))});
  });
  return "  response (done - due)\n" + table.Text();
}

std::string PartsTable(const StepFigures& figures) {
  bool waited = false;
  ForEachRow(figures, [&](const GroupFigures&, const KindFigures& kind, bool) {
    waited = waited || kind.wait.moments().max != 0 || kind.service.count() != kind.response.count();
  });
  if (!waited) return "  wait (issued - due) was zero throughout; service (done - issued) equals response\n";
  Table table({{"", Align::kLeft},
               {"kind", Align::kLeft},
               {"wait mean"},
               {"p50"},
               {"p99"},
               {"p99.9"},
               {"max"},
               {"service mean"},
               {"p50"},
               {"p99"},
               {"p99.9"},
               {"max"}},
              "  ");
  ForEachRow(figures, [&](const GroupFigures& group, const KindFigures& kind, bool first) {
    std::vector<std::string> row = {first ? Label(group) : "", std::string(KindLabel(kind.kind))};
    for (const Histogram* part : {&kind.wait, &kind.service}) {
      row.push_back(LatencyCell(*part, part->moments().Mean()));
      for (double q : {0.5, 0.99, 0.999}) row.push_back(PercentileCell(*part, q));
      row.push_back(LatencyCell(*part, static_cast<double>(part->moments().max)));
    }
    table.Add(std::move(row));
  });
  return "  wait (issued - due) and service (done - issued)\n" + table.Text();
}

std::string DepthTable(const StepFigures& figures) {
  Table table({{"", Align::kLeft}, {"asked depth"}, {"achieved"}, {"on the wire"}, {"time full"}}, "  ");
  auto row = [&](const GroupFigures& group) {
    table.Add({Label(group), group.asked_depth > 0 ? DepthCell(group.asked_depth) : "-",
               DepthCell(group.achieved_depth), DepthCell(group.wire_depth),
               fmt::format("{:.1f}%", group.time_full_share * 100)});
  };
  row(figures.fleet);
  for (const GroupFigures& initiator : figures.initiators) row(initiator);
  return table.Text();
}

std::string ChecksText(const StepResult& result) {
  if (result.checks.empty()) return "";
  Table table({{"check", Align::kLeft}, {"outcome", Align::kLeft}, {"evidence", Align::kLeft}}, "  ");
  for (const Check& check : result.checks) {
    table.Add({check.name, std::string(CheckOutcomeName(check.outcome)), check.evidence});
  }
  return table.Text();
}

std::string ErrorsText(const StepFigures& figures) {
  if (figures.errors.empty()) return "";
  Table table({{"failed", Align::kLeft}, {"class", Align::kLeft}, {"code"}, {"count"}, {"mean"}, {"max"}}, "  ");
  for (const ErrorFigures& error : figures.errors) {
    table.Add({std::string(OpKindName(error.kind)), std::string(OutcomeName(error.outcome)),
               NativeCodeName(error.native_code), CountCell(static_cast<double>(error.count)),
               LatencyCell(error.response, error.response.moments().Mean()),
               LatencyCell(error.response, static_cast<double>(error.response.moments().max))});
  }
  return table.Text();
}

// What lost agents had delivered before the window was begun anew.
std::string LostText(const StepFigures& figures) {
  if (figures.lost.empty()) return "";
  Table table({{"lost agent", Align::kLeft},
               {"kind", Align::kLeft},
               {"intervals"},
               {"IOPS"},
               {"MB/s"},
               {"mean"},
               {"p99"},
               {"max"},
               {"failed"}},
              "  ");
  for (const LostFigures& lost : figures.lost) {
    const Nanos window = figures.interval * lost.intervals;
    for (const KindFigures& kind : lost.group.kinds) {
      if (lost.group.kinds.size() == 2 && !kind.kind.has_value()) continue;
      table.Add({Printable(lost.group.agent), std::string(KindLabel(kind.kind)), fmt::format("{}", lost.intervals),
                 CountCell(PerSecond(kind.completed, window)), MegabytesCell(PerSecond(kind.bytes, window)),
                 LatencyCell(kind.response, kind.response.moments().Mean()), PercentileCell(kind.response, 0.99),
                 MaxCell(kind), CountCell(static_cast<double>(kind.failed))});
    }
  }
  return "  delivered in a window that was begun anew; in no figure above\n" + table.Text();
}

std::string MissingText(const StepFigures& figures) {
  std::string out;
  const size_t shown = std::min(figures.missing.size(), kMissingShown);
  for (size_t i = 0; i < shown; ++i) out += "  missing: " + Printable(figures.missing[i]) + "\n";
  if (figures.missing_count > shown) out += fmt::format("  missing: {} more\n", figures.missing_count - shown);
  return out;
}

// The connections' counters summed over the fleet; of windows the extremes. Per connection they are in the JSON.
std::string ConnectionsText(const StepFigures& figures) {
  if (figures.connections.empty()) return "";
  std::vector<std::pair<std::string, uint64_t>> sums;
  Nanos down = 0;
  for (const ConnectionTotals& connection : figures.connections) {
    down += connection.down;
    for (const auto& [name, value] : connection.counters) {
      const auto at =
          std::find_if(sums.begin(), sums.end(), [&wanted = name](const auto& sum) { return sum.first == wanted; });
      if (at == sums.end()) {
        sums.emplace_back(name, value);
      } else if (name.starts_with("smallest")) {
        at->second = std::min(at->second, value);
      } else if (name.starts_with("largest")) {
        at->second = std::max(at->second, value);
      } else {
        at->second += value;
      }
    }
  }
  std::string out = fmt::format("  connections: {}, down {} in all\n", figures.connections.size(),
                                FormatLatency(static_cast<double>(down)));
  for (const auto& [name, value] : sums) {
    out += "    " +
           Printable(name.ends_with(" ns") ? fmt::format("{}: {}", name.substr(0, name.size() - 3),
                                                         FormatLatency(static_cast<double>(value)))
                                           : fmt::format("{}: {}", name, value)) +
           "\n";
  }
  return out;
}

std::string HeldText(const StepFigures& figures) {
  std::string out;
  if (figures.held != 0) {
    out += fmt::format(
        "  histograms per window: report bound ({} initiator-intervals; their intervals have no percentiles)\n",
        figures.held);
  }
  if (figures.held_uncounted != 0) {
    out += fmt::format("  report bound: latencies may include {} initiator-intervals that do not count for rates\n",
                       figures.held_uncounted);
  }
  if (figures.held_owed != 0) {
    out += fmt::format("  report bound: {} histograms never came, latencies are without them\n", figures.held_owed);
  }
  return out;
}

std::string StragglersText(const StepFigures& figures) {
  if (figures.straggle_count == 0) return "";
  std::string out = fmt::format("  outstanding at the end: {} operations, oldest {}\n", figures.straggle_count,
                                FormatLatency(static_cast<double>(figures.straggle_oldest)));
  const size_t shown = std::min(figures.stragglers.size(), kStragglersShown);
  for (size_t i = 0; i < shown; ++i) {
    const StraggleOp& op = figures.stragglers[i];
    out += fmt::format("    initiator {} {}: {} old at the end, {} {}\n", op.initiator, OpKindName(op.kind),
                       FormatLatency(static_cast<double>(op.age_at_end)), op.ended ? "ended after" : "not ended after",
                       FormatLatency(static_cast<double>(op.final_age)));
  }
  return out;
}

std::string PrecisionText(const StepResult& result) {
  const StepFigures& f = result.figures;
  auto at_end = [&](Nanos value) {
    return IsSealed(result) ? FormatLatency(static_cast<double>(value)) : std::string("not known");
  };
  std::string out = fmt::format(
      "  start skew {}, clock error {}, edge error {}, stamp error {}, longest poll gap {}, {:.2f} CPUs used\n",
      at_end(result.start_skew), at_end(result.clock_error), FormatLatency(static_cast<double>(f.edge_error)),
      FormatLatency(static_cast<double>(f.stamp_error)), FormatLatency(static_cast<double>(f.poll_gap_max)),
      f.cpu_share);
  if (f.hiccup.count() != 0) {
    out += fmt::format("  generator hiccups: p99 {}, max {}\n", PercentileCell(f.hiccup, 0.99),
                       FormatLatency(static_cast<double>(f.hiccup.moments().max)));
  }
  if (f.fleet.lateness.count() != 0) {
    out += fmt::format("  lateness where a slot was free: p50 {}, p99 {}, max {}\n",
                       PercentileCell(f.fleet.lateness, 0.5), PercentileCell(f.fleet.lateness, 0.99),
                       FormatLatency(static_cast<double>(f.fleet.lateness.moments().max)));
  }
  if (result.fill_bytes != 0) {
    out += fmt::format("  filled {} in {} ({} MB/s)\n", FormatBytesHuman(static_cast<double>(result.fill_bytes)),
                       FormatLatency(static_cast<double>(result.fill_time)),
                       MegabytesCell(PerSecond(result.fill_bytes, result.fill_time)));
  }
  return out;
}

}  // namespace

std::string StepText(const StepResult& result, const std::vector<SparkPoint>& points, size_t width) {
  const StepFigures& figures = result.figures;
  std::string out =
      fmt::format("== {}: {}\n  {}\n", Printable(result.step.name), StepOutcomeName(result.outcome), Describe(result));
  for (const std::string& reason : Reasons(result)) out += "  " + Printable(reason) + "\n";
  if (result.outcome == StepOutcome::kSkipped) return out;
  if (!figures.lost_agents.empty()) {
    std::string lost;
    for (const std::string& agent : figures.lost_agents) lost += (lost.empty() ? "" : ", ") + agent;
    out += "  lost agents: " + Printable(lost) + "\n";
  }
  if (!figures.left_out.empty()) {
    out += fmt::format("  {} of {} initiators: measured anew without {} (lost), {} window{} given up\n",
                       figures.initiators_asked - figures.left_out_initiators, figures.initiators_asked,
                       Printable(fmt::format("{}", fmt::join(figures.left_out, ", "))), figures.restarts,
                       figures.restarts == 1 ? "" : "s");
  }
  out += "\n";
  const std::string line = Sparkline(points, figures.interval, width > 2 ? width - 2 : width, "  ");
  if (!line.empty()) out += line + "\n";
  if (figures.intervals != 0) {
    out += ResponseTable(figures) + "\n" + PartsTable(figures) + "\n" + DepthTable(figures) + "\n";
  }
  for (const std::string& block :
       {ChecksText(result), LostText(figures), ErrorsText(figures), MissingText(figures), HeldText(figures),
        ConnectionsText(figures), StragglersText(figures), PrecisionText(result)}) {
    if (!block.empty()) out += block + "\n";
  }
  for (const auto& line : FactLines(result.facts)) out += Printable("  " + line) + "\n";
  return out;
}

absl::StatusOr<std::string> FormatResults(RunReader& reader, const DetailOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(const LoadedRun run, LoadRun(reader));
  const std::string message = RunMessage(run.summary);
  std::string out = Printable(fmt::format("run {}: {}, {}{}", run.summary.id, run.summary.campaign_name,
                                          run.summary.outcome, message.empty() ? "" : ": " + message)) +
                    "\n";
  out += fmt::format("started {}, finished {}, build {}, {} agents\n\n", TimeCell(run.summary.started_wall_micros),
                     TimeCell(run.summary.finished_wall_micros), Printable(run.header.build), run.agents.size());
  std::vector<StepResult> steps;
  for (const StepResult& step : run.steps) {
    if (options.step.empty() || options.step == step.step.name || options.step == std::to_string(step.step.index + 1)) {
      steps.push_back(step);
    }
  }
  if (steps.empty() && !options.step.empty()) {
    std::string names;
    for (const StepResult& step : run.steps) names += (names.empty() ? "" : ", ") + step.step.name;
    return MakeError(absl::StatusCode::kNotFound,
                     {.code = "STEP_UNKNOWN",
                      .place = run.summary.path,
                      .message = fmt::format("there is no step \"{}\"", options.step),
                      .next = names.empty() ? "The run has no results." : fmt::format("There are: {}.", names)});
  }
  out += ResultsTableText(steps);
  for (const StepResult& step : steps) {
    std::vector<SparkPoint> points;
    MUSTER_RETURN_IF_ERROR(reader.VisitIntervals(step.step.index, [&](const FleetInterval& interval) {
      uint64_t completed = 0;
      for (const KindFigures& kind : interval.kinds) completed += kind.completed;
      points.push_back({interval.interval, interval.in_window, PerSecond(completed, step.figures.interval)});
      return absl::OkStatus();
    }));
    out += "\n" + StepText(step, points, options.width);
  }
  return out;
}

}  // namespace muster
