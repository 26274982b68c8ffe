#include "controller/store/record_codec.h"

#include <fmt/format.h>

#include "common/base/status.h"
#include "common/wire/codec.h"
#include "controller/store/figure_codec.h"
#include "controller/store/utf8.h"
#include "muster/v1/result.pb.h"

namespace muster {
namespace {

void Encode(const std::vector<std::pair<std::string, std::string>>& facts,
            google::protobuf::RepeatedPtrField<v1::Fact>* out) {
  for (const auto& [name, value] : facts) {
    v1::Fact* fact = out->Add();
    fact->set_name(name);
    fact->set_value(value);
  }
}

std::vector<std::pair<std::string, std::string>> Decode(const google::protobuf::RepeatedPtrField<v1::Fact>& facts) {
  std::vector<std::pair<std::string, std::string>> out;
  out.reserve(facts.size());
  for (const v1::Fact& fact : facts) out.emplace_back(fact.name(), fact.value());
  return out;
}

v1::StepRecord EncodeStep(const Step& step) {
  v1::StepRecord out;
  out.set_index(step.index);
  out.set_name(step.name);
  out.set_campaign_step(step.campaign_step);
  Encode(step.sweep_point, out.mutable_sweep_point());
  out.set_target(step.target);
  ToProto(step.objects, out.mutable_objects());
  out.set_initiators(step.initiators);
  out.set_initiators_max(step.initiators_max);
  out.set_fill_passes(step.fill_passes);
  *out.mutable_fill() = ToProto(step.fill);
  *out.mutable_measure() = ToProto(step.measure);
  out.set_writes(step.writes);
  out.set_estimated_ns(step.estimated);
  out.set_bytes_written_at_least(step.bytes_written_at_least);
  out.set_skip_reason(step.skip_reason);
  return out;
}

// The codec refuses what an agent could not run; a record is of what was planned, whether it could be run or not.
absl::StatusOr<MeasureSpec> DecodeMeasure(v1::MeasureSpec in) {
  const uint64_t size = in.total_size();
  const uint32_t window = in.window_intervals();
  if (size == 0) {
    in.set_total_size(1);
    in.mutable_workload()->clear_size();
    in.mutable_workload()->clear_size_per_initiator();
  }
  if (window == 0) in.set_window_intervals(1);
  MUSTER_ASSIGN_OR_RETURN(MeasureSpec out, FromProto(in));
  out.workload.size = size;
  out.window_intervals = window;
  return out;
}

absl::StatusOr<Step> DecodeStep(const v1::StepRecord& in) {
  Step out;
  out.index = in.index();
  out.name = in.name();
  out.campaign_step = in.campaign_step();
  out.sweep_point = Decode(in.sweep_point());
  out.target = in.target();
  MUSTER_ASSIGN_OR_RETURN(out.objects, FromProto(in.objects()));
  out.initiators = in.initiators();
  out.initiators_max = in.initiators_max();
  out.fill_passes = in.fill_passes();
  MUSTER_ASSIGN_OR_RETURN(out.fill, FromProto(in.fill()));
  auto measure = DecodeMeasure(in.measure());
  // A point may have been skipped for what is wrong in it.
  if (!measure.ok() && in.skip_reason().empty()) return measure.status();
  if (measure.ok()) out.measure = *std::move(measure);
  out.writes = in.writes();
  out.estimated = in.estimated_ns();
  out.bytes_written_at_least = in.bytes_written_at_least();
  out.skip_reason = in.skip_reason();
  return out;
}

void EncodeFigures(const StepFigures& figures, v1::StepResult& out) {
  out.set_interval_ns(figures.interval);
  out.set_first_interval(figures.first_interval);
  out.set_intervals_asked(figures.intervals_asked);
  out.set_intervals(figures.intervals);
  *out.mutable_fleet() = EncodeFigureGroup(figures.fleet);
  for (const ErrorFigures& error : figures.errors) *out.add_errors() = EncodeErrorFigures(error);
  for (const std::string& missing : figures.missing) out.add_missing(missing);
  out.set_missing_count(figures.missing_count);
  out.set_initiators_asked(figures.initiators_asked);
  out.set_initiators_heard(figures.initiators_heard);
  for (const std::string& agent : figures.lost_agents) out.add_lost_agents(agent);
  for (const std::string& agent : figures.left_out) out.add_left_out(agent);
  out.set_left_out_initiators(figures.left_out_initiators);
  out.set_restarts(figures.restarts);
  for (const LostFigures& lost : figures.lost) {
    v1::LostAgentResult* to = out.add_lost();
    to->set_attempt(lost.attempt);
    to->set_intervals(lost.intervals);
    *to->mutable_group() = EncodeFigureGroup(lost.group);
  }
  out.set_straggle_count(figures.straggle_count);
  for (const StraggleOp& op : figures.stragglers) {
    v1::StraggleOp* to = out.add_stragglers();
    to->set_initiator(op.initiator);
    to->set_kind(ToProto(op.kind));
    to->set_age_at_end_ns(op.age_at_end);
    to->set_final_age_ns(op.final_age);
    to->set_ended(op.ended);
  }
  out.set_straggle_oldest_ns(figures.straggle_oldest);
  out.set_edge_error_ns(figures.edge_error);
  out.set_stamp_error_ns(figures.stamp_error);
  out.set_poll_gap_max_ns(figures.poll_gap_max);
  if (figures.hiccup.count() != 0) *out.mutable_hiccup() = ToProto(figures.hiccup.Encode());
  out.set_cpu_share(figures.cpu_share);
  out.set_overloaded(figures.overloaded);
  out.set_poisoned(figures.poisoned);
  out.set_held(figures.held);
  out.set_held_uncounted(figures.held_uncounted);
  out.set_held_owed(figures.held_owed);
  for (const ConnectionTotals& connection : figures.connections) *out.add_connections() = ToProto(connection);
  if (!figures.sums_error.ok()) *out.mutable_sums_error() = ToProto(figures.sums_error);
}

absl::Status DecodeFigures(const v1::StepResult& in, StepFigures& out) {
  out.interval = in.interval_ns();
  out.first_interval = in.first_interval();
  out.intervals_asked = in.intervals_asked();
  out.intervals = in.intervals();
  MUSTER_ASSIGN_OR_RETURN(out.fleet, DecodeFigureGroup(in.fleet()));
  for (const v1::ErrorCount& error : in.errors()) {
    MUSTER_ASSIGN_OR_RETURN(ErrorFigures figures, DecodeErrorFigures(error));
    out.errors.push_back(std::move(figures));
  }
  out.missing.assign(in.missing().begin(), in.missing().end());
  out.missing_count = in.missing_count();
  out.initiators_asked = in.initiators_asked();
  out.initiators_heard = in.initiators_heard();
  out.lost_agents.assign(in.lost_agents().begin(), in.lost_agents().end());
  out.left_out.assign(in.left_out().begin(), in.left_out().end());
  out.left_out_initiators = in.left_out_initiators();
  out.restarts = in.restarts();
  for (const v1::LostAgentResult& lost : in.lost()) {
    MUSTER_ASSIGN_OR_RETURN(GroupFigures group, DecodeFigureGroup(lost.group()));
    out.lost.push_back({.attempt = lost.attempt(), .intervals = lost.intervals(), .group = std::move(group)});
  }
  out.straggle_count = in.straggle_count();
  for (const v1::StraggleOp& op : in.stragglers()) {
    MUSTER_ASSIGN_OR_RETURN(const OpKind kind, DecodeKind(op.kind()));
    out.stragglers.push_back({.initiator = op.initiator(),
                              .kind = kind,
                              .age_at_end = op.age_at_end_ns(),
                              .final_age = op.final_age_ns(),
                              .ended = op.ended()});
  }
  out.straggle_oldest = in.straggle_oldest_ns();
  out.edge_error = in.edge_error_ns();
  out.stamp_error = in.stamp_error_ns();
  out.poll_gap_max = in.poll_gap_max_ns();
  MUSTER_ASSIGN_OR_RETURN(out.hiccup, DecodeHistogram(in.has_hiccup(), in.hiccup()));
  out.cpu_share = in.cpu_share();
  out.overloaded = in.overloaded();
  out.poisoned = in.poisoned();
  out.held = in.held();
  out.held_uncounted = in.held_uncounted();
  out.held_owed = in.held_owed();
  for (const v1::ConnectionTotals& connection : in.connections()) out.connections.push_back(FromProto(connection));
  if (in.has_sums_error()) out.sums_error = FromProto(in.sums_error());
  return absl::OkStatus();
}

absl::StatusOr<StepOutcome> OutcomeFromName(std::string_view name) {
  for (StepOutcome outcome : {StepOutcome::kValid, StepOutcome::kInvalid, StepOutcome::kOverloaded,
                              StepOutcome::kCancelled, StepOutcome::kFailed, StepOutcome::kSkipped}) {
    if (StepOutcomeName(outcome) == name) return outcome;
  }
  return DamagedRecord("outcome of a step");
}

template <typename Message>
absl::StatusOr<Message> Parse(std::string_view bytes, std::string_view what) {
  Message message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return DamagedRecord(what);
  return message;
}

}  // namespace

absl::Status DamagedRecord(std::string_view what) {
  return MakeError(absl::StatusCode::kDataLoss, {.code = "RUN_DAMAGED",
                                                 .message = fmt::format("a record cannot be read: {}", what),
                                                 .next = "The file is broken, or of another version."});
}

std::string EncodePlan(const Plan& plan) {
  v1::PlanRecord out;
  out.set_name(plan.name);
  out.set_seed(plan.seed);
  for (const Target& target : plan.targets) {
    v1::NamedTarget* to = out.add_targets();
    to->set_name(target.name);
    *to->mutable_target() = ToProto(target);
  }
  for (const Step& step : plan.steps) *out.add_steps() = EncodeStep(step);
  out.set_interval_ns(plan.interval);
  out.set_op_timeout_ns(plan.op_timeout);
  out.set_continue_on_loss(plan.continue_on_loss);
  for (const std::string& warning : plan.warnings) out.add_warnings(warning);
  MakeUtf8(out);
  return out.SerializeAsString();
}

absl::StatusOr<Plan> DecodePlanSteps(std::string_view bytes) {
  MUSTER_ASSIGN_OR_RETURN(const auto in, Parse<v1::PlanRecord>(bytes, "plan"));
  Plan out;
  out.interval = in.interval_ns();
  out.op_timeout = in.op_timeout_ns();
  out.continue_on_loss = in.continue_on_loss();
  for (const v1::StepRecord& record : in.steps()) {
    auto step = DecodeStep(record);
    if (!step.ok()) return DamagedRecord(fmt::format("step of the plan: {}", FormatError(step.status())));
    out.steps.push_back(*std::move(step));
  }
  return out;
}

std::string EncodeAgent(const RunAgent& agent) {
  v1::AgentRecord out;
  out.set_id(agent.id);
  out.set_host_id(agent.host_id);
  out.set_boot_id(agent.boot_id);
  out.set_hostname(agent.hostname);
  out.set_build(agent.build);
  Encode(agent.facts, out.mutable_facts());
  MakeUtf8(out);
  return out.SerializeAsString();
}

absl::StatusOr<RunAgent> DecodeAgent(std::string_view bytes) {
  MUSTER_ASSIGN_OR_RETURN(const auto in, Parse<v1::AgentRecord>(bytes, "agent"));
  return RunAgent{.id = in.id(),
                  .host_id = in.host_id(),
                  .boot_id = in.boot_id(),
                  .hostname = in.hostname(),
                  .build = in.build(),
                  .facts = Decode(in.facts())};
}

std::string EncodeResult(const StepResult& result) {
  v1::StepResult out;
  *out.mutable_step() = EncodeStep(result.step);
  out.set_outcome(std::string(StepOutcomeName(result.outcome)));
  out.set_message(result.message);
  EncodeFigures(result.figures, out);
  for (const Check& check : result.checks) {
    v1::Check* to = out.add_checks();
    to->set_name(check.name);
    to->set_outcome(static_cast<v1::CheckOutcome>(static_cast<int>(check.outcome) + 1));
    to->set_evidence(check.evidence);
  }
  Encode(result.facts, out.mutable_facts());
  out.set_start_skew_ns(result.start_skew);
  out.set_clock_error_ns(result.clock_error);
  out.set_fill_bytes(result.fill_bytes);
  out.set_fill_ns(result.fill_time);
  MakeUtf8(out);
  return out.SerializeAsString();
}

absl::StatusOr<StepResult> DecodeResult(std::string_view bytes) {
  MUSTER_ASSIGN_OR_RETURN(const auto in, Parse<v1::StepResult>(bytes, "result of a step"));
  StepResult out;
  auto step = DecodeStep(in.step());
  if (!step.ok()) return DamagedRecord(fmt::format("step of a result: {}", FormatError(step.status())));
  out.step = *std::move(step);
  MUSTER_ASSIGN_OR_RETURN(out.outcome, OutcomeFromName(in.outcome()));
  out.message = in.message();
  MUSTER_RETURN_IF_ERROR(DecodeFigures(in, out.figures));
  for (const v1::Check& check : in.checks()) {
    if (check.outcome() < v1::CHECK_OUTCOME_PASS || check.outcome() > v1::CHECK_OUTCOME_NOT_EVALUATED) {
      return DamagedRecord("outcome of a check");
    }
    out.checks.push_back({.name = check.name(),
                          .outcome = static_cast<CheckOutcome>(static_cast<int>(check.outcome()) - 1),
                          .evidence = check.evidence()});
  }
  out.facts = Decode(in.facts());
  out.start_skew = in.start_skew_ns();
  out.clock_error = in.clock_error_ns();
  out.fill_bytes = in.fill_bytes();
  out.fill_time = in.fill_ns();
  return out;
}

std::string EncodeGroup(const GroupFigures& group) {
  v1::GroupResult out = EncodeFigureGroup(group);
  MakeUtf8(out);
  return out.SerializeAsString();
}

absl::StatusOr<GroupFigures> DecodeGroup(std::string_view bytes) {
  MUSTER_ASSIGN_OR_RETURN(const auto in, Parse<v1::GroupResult>(bytes, "figures of an initiator"));
  return DecodeFigureGroup(in);
}

}  // namespace muster
