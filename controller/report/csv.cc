#include <fmt/format.h>

#include "common/base/status.h"
#include "common/base/units.h"
#include "controller/report/csv_row.h"
#include "controller/report/derived.h"
#include "controller/report/export.h"

namespace muster {
namespace {

// Column "histograms": what latencies of intervals are made of, and why they may be absent.
constexpr std::string_view kPerInterval = "per interval";
constexpr std::string_view kPerWindow = "per window: report bound";

// Figures of one latency; empty cells where there is no operation, or too few above a percentile.
void LatencyTitles(CsvRow& row, const std::string& name) {
  for (const char* figure : {"count", "mean_ns", "stddev_ns", "min_ns"}) row.Text(name + "_" + figure);
  for (const NamedQuantile& quantile : kQuantiles) row.Text(fmt::format("{}_{}_ns", name, quantile.name));
  row.Text(name + "_max_ns");
}

void MomentsCells(CsvRow& row, const Moments& moments, const Histogram* histogram, uint64_t max) {
  row.Whole(moments.count);
  if (moments.count == 0) {
    row.Empty(3 + kQuantiles.size() + 1);
    return;
  }
  row.Number(moments.Mean()).Number(moments.StandardDeviation()).Whole(moments.min);
  for (const NamedQuantile& named : kQuantiles) {
    const Quantile quantile = histogram == nullptr ? Quantile{} : histogram->At(named.q);
    quantile.enough ? row.Whole(quantile.value) : row.Empty(1);
  }
  row.Whole(max);
}

void StepTitles(CsvRow& row) {
  for (const char* title : {"run",
                            "step_index",
                            "step",
                            "outcome",
                            "sweep_point",
                            "target",
                            "group",
                            "agent",
                            "kind",
                            "initiators",
                            "block_bytes",
                            "pattern",
                            "read_share",
                            "trim_share",
                            "size_bytes",
                            "layout",
                            "load",
                            "pacing",
                            "rate_per_second",
                            "rate_per",
                            "interval_ns",
                            "window_ns",
                            "intervals",
                            "intervals_asked",
                            "completed",
                            "bytes",
                            "failed",
                            "iops",
                            "bytes_per_second"}) {
    row.Text(title);
  }
  for (const char* part : {"response", "wait", "service"}) LatencyTitles(row, part);
  for (const char* title : {"asked_depth", "achieved_depth", "wire_depth", "time_full_share", "histograms"})
    row.Text(title);
  row.Text("sealed").Text("message");
}

std::string SweepText(const Step& step) {
  std::string out;
  for (const auto& [name, value] : step.sweep_point) out += fmt::format("{}{}={}", out.empty() ? "" : ";", name, value);
  return out;
}

void StepCells(CsvRow& row, const std::string& run, const StepResult& result, const GroupFigures& group,
               const KindFigures& kind) {
  const Step& step = result.step;
  const Workload& w = step.measure.workload;
  const StepFigures& figures = result.figures;
  row.Text(run).Whole(step.index).Text(step.name).Text(StepOutcomeName(result.outcome)).Text(SweepText(step));
  row.Text(step.target).Text(group.name).Text(group.agent).Text(KindLabel(kind.kind)).Whole(step.initiators);
  row.Whole(w.block).Text(PatternName(w.pattern)).Number(w.read).Number(w.trim).Whole(w.size);
  row.Text(LayoutName(w.layout)).Text(FormatLoad(w.load)).Text(PacingName(w.pacing));
  if (w.pacing == Pacing::kClosed) {
    row.Empty(2);
  } else {
    row.Number(w.rate).Text(RatePerName(w.rate_per));
  }
  row.Whole(figures.interval).Whole(figures.window()).Whole(figures.intervals).Whole(figures.intervals_asked);
  row.Whole(kind.completed).Whole(kind.bytes).Whole(kind.failed);
  row.Number(PerSecond(kind.completed, figures.window())).Number(PerSecond(kind.bytes, figures.window()));
  MomentsCells(row, kind.response.moments(), &kind.response, kind.response_max);
  MomentsCells(row, kind.wait.moments(), &kind.wait, kind.wait.moments().max);
  MomentsCells(row, kind.service.moments(), &kind.service, kind.service.moments().max);
  // Depth is the group's, not a kind's.
  if (kind.kind.has_value()) {
    row.Empty(4);
  } else {
    group.asked_depth == 0 ? row.Empty(1) : row.Number(group.asked_depth);
    row.Number(group.achieved_depth).Number(group.wire_depth).Number(group.time_full_share);
  }
  row.Text(figures.held + figures.held_uncounted + figures.held_owed == 0 ? kPerInterval : kPerWindow);
  row.Whole(IsSealed(result) ? 1 : 0).Text(result.message);
}

void IntervalTitles(CsvRow& row) {
  for (const char* title : {"run", "step_index", "step", "interval", "in_window", "group", "kind", "completed", "bytes",
                            "failed", "iops", "bytes_per_second"}) {
    row.Text(title);
  }
  LatencyTitles(row, "response");
  for (const char* title : {"outstanding", "waiting", "oldest_age_ns", "achieved_depth", "wire_depth", "histograms"})
    row.Text(title);
  row.Text("outcome").Text("sealed");
}

void IntervalStart(CsvRow& row, const std::string& run, const StepResult& step, const FleetInterval& interval,
                   std::string_view group, std::string_view kind) {
  row.Text(run).Whole(step.step.index).Text(step.step.name).Whole(interval.interval);
  row.Whole(interval.in_window ? 1 : 0).Text(group).Text(kind);
}

void IntervalEnd(CsvRow& row, const StepResult& step) {
  row.Text(StepOutcomeName(step.outcome)).Whole(IsSealed(step) ? 1 : 0);
}

void Counters(CsvRow& row, uint64_t completed, uint64_t bytes, uint64_t failed, Nanos length) {
  row.Whole(completed).Whole(bytes).Whole(failed).Number(PerSecond(completed, length)).Number(PerSecond(bytes, length));
}

void WriteInterval(const std::string& run, const StepResult& step, const FleetInterval& interval, std::ostream& out) {
  const Nanos length = step.figures.interval;
  auto fleet = [&](const KindFigures& kind) {
    CsvRow row(out);
    IntervalStart(row, run, step, interval, "fleet", KindLabel(kind.kind));
    Counters(row, kind.completed, kind.bytes, kind.failed, length);
    MomentsCells(row, kind.response.moments(), &kind.response, kind.response.moments().max);
    if (kind.kind.has_value()) {
      row.Empty(5);
    } else {
      row.Whole(interval.outstanding).Whole(interval.waiting).Whole(interval.oldest_age).Empty(2);
    }
    row.Text(interval.held ? kPerWindow : kPerInterval);
    IntervalEnd(row, step);
  };
  fleet(PooledInterval(interval));
  for (const KindFigures& kind : interval.kinds) {
    if (kind.kind.has_value()) fleet(kind);
  }
  for (const InitiatorDelta& initiator : interval.initiators) {
    const std::string name = std::to_string(initiator.initiator);
    InitiatorKind all;
    all.histogram = Histogram();
    const std::vector<InitiatorKind> kinds = KindsOfInitiator(initiator);
    for (const InitiatorKind& kind : kinds) {
      all.completed += kind.completed;
      all.bytes += kind.bytes;
      all.failed += kind.failed;
      all.response.Merge(kind.response).IgnoreError();  // merged once already when the phase was aggregated
      if (!kind.histogram.has_value() || (all.histogram.has_value() && !all.histogram->Merge(*kind.histogram).ok())) {
        all.histogram.reset();
      }
    }
    auto write = [&](const InitiatorKind& kind, std::string_view label, bool depth) {
      CsvRow row(out);
      IntervalStart(row, run, step, interval, name, label);
      Counters(row, kind.completed, kind.bytes, kind.failed, length);
      MomentsCells(row, kind.response, kind.histogram.has_value() ? &*kind.histogram : nullptr, kind.response.max);
      if (depth) {
        row.Whole(initiator.outstanding).Whole(initiator.waiting).Whole(initiator.oldest_age);
        row.Number(static_cast<double>(initiator.offered_integral) / static_cast<double>(length));
        row.Number(static_cast<double>(initiator.wire_integral) / static_cast<double>(length));
      } else {
        row.Empty(5);
      }
      row.Text(interval.held ? kPerWindow : kPerInterval);
      IntervalEnd(row, step);
    };
    write(all, "all", true);
    for (const InitiatorKind& kind : kinds) write(kind, OpKindName(kind.kind), false);
  }
}

}  // namespace

absl::Status ExportCsv(RunReader& reader, std::ostream& out) {
  MUSTER_ASSIGN_OR_RETURN(const LoadedRun run, LoadRun(reader));
  {
    CsvRow titles(out);
    StepTitles(titles);
  }
  for (const StepResult& step : run.steps) {
    auto write = [&](const GroupFigures& group) {
      for (const KindFigures& kind : group.kinds) {
        CsvRow row(out);
        StepCells(row, run.summary.id, step, group, kind);
      }
    };
    write(step.figures.fleet);
    for (const GroupFigures& initiator : step.figures.initiators) write(initiator);
    for (const LostFigures& lost : step.figures.lost) {
      StepResult given_up = step;  // rates are over the window that it was in
      given_up.figures.intervals = lost.intervals;
      for (const KindFigures& kind : lost.group.kinds) {
        CsvRow row(out);
        StepCells(row, run.summary.id, given_up, lost.group, kind);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ExportCsvIntervals(RunReader& reader, std::ostream& out) {
  MUSTER_ASSIGN_OR_RETURN(const LoadedRun run, LoadRun(reader));
  {
    CsvRow titles(out);
    IntervalTitles(titles);
  }
  for (const StepResult& step : run.steps) {
    MUSTER_RETURN_IF_ERROR(reader.VisitIntervals(step.step.index, [&](const FleetInterval& interval) {
      WriteInterval(run.summary.id, step, interval, out);
      return absl::OkStatus();
    }));
  }
  return absl::OkStatus();
}

}  // namespace muster
