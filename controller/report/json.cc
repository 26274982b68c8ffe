#include <nlohmann/json.hpp>

#include "common/base/status.h"
#include "common/base/units.h"
#include "common/stats/hlog_writer.h"
#include "controller/report/derived.h"
#include "controller/report/export.h"
#include "controller/report/report.h"
#include "controller/report/text.h"

namespace muster {
namespace {

using Json = nlohmann::ordered_json;  // keys stay in the order written

constexpr int kJsonVersion = 2;

// How a histogram's counters are told.
enum class Counters {
  kNone,
  kPacked,      // HdrHistogram's V2 compressed form, a tenth of the size
  kSpelledOut,  // pairs of value and count
};

// Invalid UTF-8 from a host becomes U+FFFD; it must not make a run unreadable.
std::string Compact(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}
std::string Dump(const Json& json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json Optional(const Histogram& histogram, uint64_t value) {
  return histogram.count() == 0 ? Json(nullptr) : Json(value);
}

Json MomentsJson(const Moments& m) {
  Json out;
  out["count"] = m.count;
  out["sum_ns"] = m.sum;
  out["sum_squares_ns2"] = Uint128ToString(m.sum_squares);
  out["mean_ns"] = m.count == 0 ? Json(nullptr) : Json(m.Mean());
  out["stddev_ns"] = m.count == 0 ? Json(nullptr) : Json(m.StandardDeviation());
  out["min_ns"] = m.count == 0 ? Json(nullptr) : Json(m.min);
  out["max_ns"] = m.count == 0 ? Json(nullptr) : Json(m.max);
  out["overflow"] = m.overflow;
  return out;
}

Json CountersJson(const Histogram& histogram) {
  Json out = Json::array();
  histogram.ForEach([&](uint32_t index, uint64_t count) {
    out.push_back(Json::array({hist::HighestOf(index), count}));
  });
  return out;
}

Json LatencyJson(const Histogram& histogram, Counters counters) {
  Json out = MomentsJson(histogram.moments());
  Json quantiles;
  for (const NamedQuantile& named : kQuantiles) {
    const Quantile quantile = histogram.At(named.q);
    quantiles[std::string(named.name) + "_ns"] = quantile.enough ? Json(quantile.value) : Json(nullptr);
  }
  out["percentiles"] = std::move(quantiles);
  if (counters == Counters::kSpelledOut) out["counters"] = CountersJson(histogram);
  if (counters == Counters::kPacked && histogram.count() > 0) {
    const auto packed = HlogWriter::CompressedBase64(histogram);
    out["histogram"] = packed.ok() ? Json(*packed) : Json(nullptr);
  }
  return out;
}

Json FactsJson(const std::vector<std::pair<std::string, std::string>>& facts) {
  Json out = Json::array();
  for (const auto& [name, value] : facts) out.push_back({{"name", name}, {"value", value}});
  return out;
}

Json KindJson(const KindFigures& kind, Nanos window, Counters counters) {
  Json out;
  out["kind"] = KindLabel(kind.kind);
  out["completed"] = kind.completed;
  out["bytes"] = kind.bytes;
  out["failed"] = kind.failed;
  out["iops"] = PerSecond(kind.completed, window);
  out["bytes_per_second"] = PerSecond(kind.bytes, window);
  out["response_max_ns"] = kind.response_max == 0 ? Optional(kind.response, 0) : Json(kind.response_max);
  out["response"] = LatencyJson(kind.response, counters);
  out["wait"] = LatencyJson(kind.wait, counters);
  out["service"] = LatencyJson(kind.service, counters);
  return out;
}

Json GroupJson(const GroupFigures& group, Nanos window, Counters counters) {
  Json out;
  out["name"] = group.name;
  out["agent"] = group.agent.empty() ? Json(nullptr) : Json(group.agent);
  out["asked_depth"] = group.asked_depth == 0 ? Json(nullptr) : Json(group.asked_depth);
  out["achieved_depth"] = group.achieved_depth;
  out["wire_depth"] = group.wire_depth;
  out["time_full_share"] = group.time_full_share;
  out["kinds"] = Json::array();
  for (const KindFigures& kind : group.kinds) out["kinds"].push_back(KindJson(kind, window, counters));
  out["lateness"] = LatencyJson(group.lateness, counters);
  return out;
}

Json WorkloadJson(const Workload& w) {
  Json out;
  out["block_bytes"] = w.block;
  out["pattern"] = PatternName(w.pattern);
  out["read_share"] = w.read;
  out["trim_share"] = w.trim;
  out["flush_every"] = w.flush_every;
  out["size_bytes"] = w.size;
  out["layout"] = LayoutName(w.layout);
  out["load"] = FormatLoad(w.load);
  out["streams"] = w.load.streams;
  out["depth"] = w.load.depth;
  out["pacing"] = PacingName(w.pacing);
  if (w.pacing != Pacing::kClosed) {
    out["rate_per_second"] = w.rate;
    out["rate_per"] = RatePerName(w.rate_per);
    out["max_outstanding"] = w.max_outstanding;
    out["overload_after_ns"] = w.overload_after;
  }
  out["seed"] = w.seed;
  return out;
}

Json InitiatorIntervalJson(const InitiatorDelta& initiator, Nanos length, Counters counters) {
  Json out;
  out["initiator"] = initiator.initiator;
  out["offered_integral_op_ns"] = Uint128ToString(initiator.offered_integral);
  out["wire_integral_op_ns"] = Uint128ToString(initiator.wire_integral);
  out["outstanding"] = initiator.outstanding;
  out["waiting"] = initiator.waiting;
  out["oldest_age_ns"] = initiator.oldest_age;
  out["time_full_ns"] = initiator.time_full;
  out["kinds"] = Json::array();
  for (const InitiatorKind& kind : KindsOfInitiator(initiator)) {
    Json row;
    row["kind"] = OpKindName(kind.kind);
    row["completed"] = kind.completed;
    row["bytes"] = kind.bytes;
    row["failed"] = kind.failed;
    row["iops"] = PerSecond(kind.completed, length);
    row["response"] = kind.histogram.has_value() ? LatencyJson(*kind.histogram, counters) : MomentsJson(kind.response);
    out["kinds"].push_back(std::move(row));
  }
  return out;
}

Json IntervalJson(const FleetInterval& interval, Nanos length, Counters counters) {
  Json out;
  out["interval"] = interval.interval;
  out["in_window"] = interval.in_window;
  out["outstanding"] = interval.outstanding;
  out["waiting"] = interval.waiting;
  out["oldest_age_ns"] = interval.oldest_age;
  out["histograms_per_window"] = interval.held;
  out["kinds"] = Json::array();
  for (const KindFigures& kind : interval.kinds) {
    if (kind.kind.has_value()) out["kinds"].push_back(KindJson(kind, length, counters));
  }
  out["initiators"] = Json::array();
  for (const InitiatorDelta& initiator : interval.initiators) {
    out["initiators"].push_back(InitiatorIntervalJson(initiator, length, counters));
  }
  return out;
}

Json StragglerJson(const StraggleOp& op) {
  return {{"initiator", op.initiator},
          {"kind", OpKindName(op.kind)},
          {"age_at_end_ns", op.age_at_end},
          {"final_age_ns", op.final_age},
          {"ended", op.ended}};
}

Json ErrorJson(const ErrorFigures& error, Counters counters) {
  Json out;
  out["kind"] = OpKindName(error.kind);
  out["class"] = OutcomeName(error.outcome);
  out["native_code"] = error.native_code;
  out["count"] = error.count;
  out["response"] = LatencyJson(error.response, counters);
  return out;
}

void AddPlanned(const Step& step, Json& out) {
  out["index"] = step.index;
  out["name"] = step.name;
  out["campaign_step"] = step.campaign_step;
  out["sweep_point"] = FactsJson(step.sweep_point);
  out["target"] = step.target;
  out["objects"] = Json::array();
  for (const ObjectSpec& object : step.objects) {
    out["objects"].push_back({{"slot", object.slot}, {"name", object.name}, {"size_bytes", object.size}});
  }
  out["initiators_asked"] = step.initiators;
  out["initiators_max"] = step.initiators_max;
  out["workload"] = WorkloadJson(step.measure.workload);
}

// Null where every interval brought its histograms.
Json HeldJson(const StepFigures& f) {
  if (f.held == 0 && f.held_uncounted == 0 && f.held_owed == 0) return nullptr;
  return {{"reason", "report bound"},
          {"initiator_intervals", f.held},
          {"initiator_intervals_uncounted", f.held_uncounted},
          {"histograms_lost", f.held_owed}};
}

void AddFigures(const StepFigures& f, Counters counters, Json& out) {
  out["interval_ns"] = f.interval;
  out["window"] = {{"first_interval", f.first_interval},
                   {"intervals_asked", f.intervals_asked},
                   {"intervals", f.intervals},
                   {"window_ns", f.window()}};
  out["fleet"] = GroupJson(f.fleet, f.window(), counters);
  out["initiators"] = Json::array();
  for (const GroupFigures& group : f.initiators) out["initiators"].push_back(GroupJson(group, f.window(), counters));
  out["errors"] = Json::array();
  for (const ErrorFigures& error : f.errors) out["errors"].push_back(ErrorJson(error, counters));
  out["histograms_per_window"] = HeldJson(f);
  out["missing"] = f.missing;
  out["missing_count"] = f.missing_count;
  out["initiators_heard"] = f.initiators_heard;
  out["lost_agents"] = f.lost_agents;
  out["left_out_agents"] = f.left_out;
  out["left_out_initiators"] = f.left_out_initiators;
  out["window_restarts"] = f.restarts;
  out["lost"] = Json::array();
  for (const LostFigures& lost : f.lost) {
    const Nanos window = f.interval * lost.intervals;
    out["lost"].push_back({{"agent", lost.group.agent},
                           {"attempt", lost.attempt},
                           {"intervals", lost.intervals},
                           {"window_ns", window},
                           {"figures", GroupJson(lost.group, window, counters)}});
  }
  out["outstanding_at_end"] = {{"count", f.straggle_count}, {"oldest_ns", f.straggle_oldest}};
  out["outstanding_at_end"]["operations"] = Json::array();
  for (const StraggleOp& op : f.stragglers) out["outstanding_at_end"]["operations"].push_back(StragglerJson(op));
  out["overloaded"] = f.overloaded;
  out["poisoned"] = f.poisoned;
  out["sums_error"] = f.sums_error.ok() ? Json(nullptr) : Json(FormatError(f.sums_error));
  out["edge_error_ns"] = f.edge_error;
  out["stamp_error_ns"] = f.stamp_error;
  out["connections"] = Json::array();
  for (const ConnectionTotals& connection : f.connections) {
    Json counters = Json::object();
    for (const auto& [name, value] : connection.counters) counters[name] = value;
    out["connections"].push_back({{"initiator", connection.initiator},
                                  {"connection", connection.connection},
                                  {"down_ns", connection.down},
                                  {"counters", std::move(counters)}});
  }
  out["poll_gap_max_ns"] = f.poll_gap_max;
  out["cpu_share"] = f.cpu_share;
  out["hiccup"] = LatencyJson(f.hiccup, counters);
}

Json StepJson(const StepResult& result, Counters counters) {
  Json out;
  AddPlanned(result.step, out);
  out["outcome"] = StepOutcomeName(result.outcome);
  out["sealed"] = IsSealed(result);
  out["message"] = result.message.empty() ? result.step.skip_reason : result.message;
  AddFigures(result.figures, counters, out);
  out["checks"] = Json::array();
  for (const Check& check : result.checks) {
    out["checks"].push_back(
        {{"name", check.name}, {"outcome", CheckOutcomeName(check.outcome)}, {"evidence", check.evidence}});
  }
  // What only the end of a step would have told is not known, and not zero.
  const bool sealed = IsSealed(result);
  if (!HasTotals(result)) out["outstanding_at_end"] = nullptr;
  out["start_skew_ns"] = sealed ? Json(result.start_skew) : Json(nullptr);
  out["clock_error_ns"] = sealed ? Json(result.clock_error) : Json(nullptr);
  out["fill"] = sealed ? Json{{"bytes", result.fill_bytes}, {"time_ns", result.fill_time}} : Json(nullptr);
  out["notes"] = Notes(result);
  out["facts"] = FactsJson(result.facts);
  return out;
}

Json SummaryJson(const RunSummary& run) {
  Json out;
  out["id"] = run.id;
  out["path"] = run.path;
  out["campaign"] = run.campaign_name;
  out["outcome"] = run.outcome;
  out["message"] = RunMessage(run);
  out["started_wall_micros"] = run.started_wall_micros;
  out["finished_wall_micros"] = run.finished_wall_micros == 0 ? Json(nullptr) : Json(run.finished_wall_micros);
  out["steps"] = run.steps;
  out["valid"] = run.valid;
  out["invalid"] = run.invalid;
  out["unsealed"] = run.unsealed;
  out["committed_wall_micros"] = run.committed_wall_micros == 0 ? Json(nullptr) : Json(run.committed_wall_micros);
  out["committed_step"] = run.committed_wall_micros == 0 ? Json(nullptr) : Json(run.committed_step);
  return out;
}

Json AgentJson(const RunAgent& agent) {
  Json out;
  out["id"] = agent.id;
  out["hostname"] = agent.hostname;
  out["host_id"] = agent.host_id;
  out["boot_id"] = agent.boot_id;
  out["build"] = agent.build;
  out["facts"] = FactsJson(agent.facts);
  return out;
}

Json HeadJson(const LoadedRun& run) {
  Json out;
  out["format"] = "muster-run";
  out["version"] = kJsonVersion;
  out["run"] = SummaryJson(run.summary);
  out["run"]["build"] = run.header.build;
  out["run"]["campaign_text"] = run.header.campaign_text;
  out["agents"] = Json::array();
  for (const RunAgent& agent : run.agents) out["agents"].push_back(AgentJson(agent));
  out["events"] = Json::array();
  for (const auto& [wall, text] : run.events) out["events"].push_back({{"wall_micros", wall}, {"text", text}});
  return out;
}

// An object without its closing brace, so that a list too long for memory can follow as its last member.
std::string OpenObject(const Json& object) {
  std::string text = Compact(object);
  text.pop_back();
  return text;
}

}  // namespace

std::string RunListJson(const std::vector<RunSummary>& runs) {
  Json out;
  out["format"] = "muster-run-list";
  out["version"] = kJsonVersion;
  out["runs"] = Json::array();
  for (const RunSummary& run : runs) out["runs"].push_back(SummaryJson(run));
  return Dump(out);
}

absl::StatusOr<std::string> RunJson(RunReader& reader) {
  MUSTER_ASSIGN_OR_RETURN(const LoadedRun run, LoadRun(reader));
  Json out = HeadJson(run);
  out["steps"] = Json::array();
  for (const StepResult& step : run.steps) out["steps"].push_back(StepJson(step, Counters::kNone));
  return Dump(out);
}

// The same document with histograms and intervals, one interval a line. Counters of intervals are most of a run file:
// they come only where they are asked for.
absl::Status ExportJson(RunReader& reader, bool spelled_out, std::ostream& out) {
  const Counters of_window = spelled_out ? Counters::kSpelledOut : Counters::kPacked;
  const Counters of_intervals = spelled_out ? Counters::kSpelledOut : Counters::kNone;
  MUSTER_ASSIGN_OR_RETURN(const LoadedRun run, LoadRun(reader));
  out << OpenObject(HeadJson(run)) << ",\n\"steps\":[";
  bool first_step = true;
  for (const StepResult& step : run.steps) {
    out << (first_step ? "\n" : ",\n") << OpenObject(StepJson(step, of_window)) << ",\n\"intervals\":[";
    first_step = false;
    bool first = true;
    MUSTER_RETURN_IF_ERROR(reader.VisitIntervals(step.step.index, [&](const FleetInterval& interval) {
      out << (first ? "\n" : ",\n") << Compact(IntervalJson(interval, step.figures.interval, of_intervals));
      first = false;
      return absl::OkStatus();
    }));
    out << "]}";
  }
  out << "]}\n";
  return absl::OkStatus();
}

}  // namespace muster
