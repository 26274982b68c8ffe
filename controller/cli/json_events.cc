#include "controller/cli/json_events.h"

#include <nlohmann/json.hpp>

#include "common/base/status.h"
#include "common/wire/codec.h"
#include "controller/campaign/campaign.h"

namespace muster {
namespace {

using Json = nlohmann::ordered_json;

// Paths and device names need not be UTF-8: what is not is replaced, never thrown at the user.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json ErrorJson(const absl::Status& status) {
  if (status.ok()) return nullptr;
  const ErrorInfo info = GetErrorInfo(status);
  return {{"code", info.code}, {"place", info.place}, {"message", info.message}, {"next", info.next}};
}

Json TextsJson(const google::protobuf::RepeatedPtrField<std::string>& texts) {
  Json out = Json::array();
  for (const std::string& text : texts) out.push_back(text);
  return out;
}

Json StepJson(const Step& step) {
  Json point = Json::object();
  for (const auto& [name, value] : step.sweep_point) point[name] = value;
  return {{"index", step.index},
          {"name", step.name},
          {"target", step.target},
          {"initiators", step.initiators},
          {"load", FormatLoad(step.measure.workload.load)},
          {"sweep_point", point}};
}

}  // namespace

std::string JsonRunStarted(const std::string& run_id, const std::string& path) {
  return Dump({{"event", "run"}, {"id", run_id}, {"path", path}});
}

std::string JsonPhase(const Step& step, PhaseKind phase, Nanos expected) {
  return Dump({{"event", "phase"},
               {"step", StepJson(step)},
               {"phase", std::string(PhaseKindName(phase))},
               {"expected_ns", expected}});
}

std::string JsonFill(const FillProgress& fill) {
  Json json = {{"event", "fill"},
               {"bytes_done", fill.bytes_done},
               {"bytes_total", fill.bytes_total},
               {"bytes_per_second", fill.bytes_per_second}};
  json["eta_ns"] = fill.eta ? Json(*fill.eta) : Json(nullptr);
  return Dump(json);
}

std::string JsonLive(const Step& step, const LiveFigures& live) {
  Json agents = Json::array();
  for (const AgentLive& a : live.agents) {
    agents.push_back({{"agent", a.agent},
                      {"interval", a.interval},
                      {"iops", a.iops},
                      {"bytes_per_second", a.bytes_per_second},
                      {"outstanding", a.outstanding},
                      {"oldest_age_ns", a.oldest_age},
                      {"cpu", a.cpu},
                      {"silent", a.silent}});
  }
  // Absent when histograms come merged over the window.
  const auto percentile = [&](Nanos value) { return live.held ? Json(nullptr) : Json(value); };
  return Dump({{"event", "live"},
               {"step", step.index},
               {"interval", live.interval},
               {"in_window", live.in_window},
               {"provisional", live.provisional},
               {"iops", live.iops},
               {"bytes_per_second", live.bytes_per_second},
               {"p50_ns", percentile(live.p50)},
               {"p99_ns", percentile(live.p99)},
               {"p99.9_ns", percentile(live.p999)},
               {"max_ns", live.max == 0 ? Json(nullptr) : Json(live.max)},
               {"outstanding", live.outstanding},
               {"failed", live.failed},
               {"agents", agents}});
}

std::string JsonText(const std::string& event, const std::string& text) {
  return Dump({{"event", event}, {"text", text}});
}

std::string JsonError(const absl::Status& error) {
  return Dump({{"event", "error"}, {"error", ErrorJson(error)}});
}

std::string JsonOutcome(const RunOutcome& outcome, int exit_code, const std::string& run_document) {
  Json json = {{"event", "result"},          {"id", outcome.run_id},   {"path", outcome.path},
               {"outcome", outcome.outcome}, {"exit_code", exit_code}, {"error", ErrorJson(outcome.error)}};
  json["run"] = Json::parse(run_document, nullptr, false);
  if (json["run"].is_discarded()) json["run"] = nullptr;
  return Dump(json);
}

std::string JsonPlan(const Plan& plan, const std::vector<TargetView>& views) {
  Json steps = Json::array();
  for (const Step& step : plan.steps) {
    Json json = StepJson(step);
    json["fill_passes"] = step.fill_passes;
    json["writes"] = step.writes;
    json["estimated_ns"] = step.estimated;
    json["bytes_written_at_least"] = step.bytes_written_at_least;
    json["buffer_bytes"] = step.skip_reason.empty() ? BufferBytes(step, 1) : 0;  // if one agent carries all of it
    json["skip_reason"] = step.skip_reason;
    Json objects = Json::array();
    for (const auto& object : step.objects) objects.push_back({{"name", object.name}, {"size", object.size}});
    json["objects"] = objects;
    steps.push_back(json);
  }
  Json targets = Json::array();
  for (const TargetView& v : views) {
    targets.push_back({{"agent", v.agent},
                       {"host", v.host},
                       {"target", v.target},
                       {"place", v.place},
                       {"identity", v.identity},
                       {"size", v.size},
                       {"found", v.found},
                       {"writable", v.writable},
                       {"verdict", v.verdict},
                       {"would_write", v.would_write},
                       {"refusal", ErrorJson(v.refusal)},
                       {"notes", v.notes}});
  }
  return Dump({{"event", "plan"},
               {"name", plan.name},
               {"seed", plan.seed},
               {"steps", steps},
               {"targets", targets},
               {"warnings", plan.warnings}});
}

std::string JsonSubmitted(const std::string& run_id) {
  return Dump({{"event", "submitted"}, {"id", run_id}});
}

std::string JsonAgents(const v1::AgentList& in) {
  Json agents = Json::array();
  for (const v1::AgentState& a : in.agents()) {
    Json labels = Json::object();
    for (const v1::Fact& label : a.labels()) labels[label.name()] = label.value();
    agents.push_back({{"id", a.id()},
                      {"host", a.hostname()},
                      {"state", a.run().empty() ? "idle" : "running"},
                      {"run", a.run().empty() ? Json(nullptr) : Json(a.run())},
                      {"link", a.link()},
                      {"link_quiet_ns", a.link_quiet_ns()},
                      {"lease_left_ns", a.lease_left_ns()},
                      {"clock_offset_ns", a.clock_known() ? Json(a.offset_ns()) : Json(nullptr)},
                      {"clock_error_ns", a.clock_known() ? Json(a.error_ns()) : Json(nullptr)},
                      {"build", a.build()},
                      {"labels", labels},
                      {"capabilities", TextsJson(a.capabilities())}});
  }
  return Dump({{"event", "agents"},
               {"build", in.build()},
               {"lease_ns", in.lease_ns()},
               {"agents", agents},
               {"refused", TextsJson(in.refusals())}});
}

std::string JsonRuns(const v1::RunList& in) {
  Json runs = Json::array();
  for (const v1::RunStatus& r : in.runs()) {
    const char* state = r.state() == v1::RUN_STATE_WAITING   ? "waiting"
                        : r.state() == v1::RUN_STATE_RUNNING ? "running"
                        : r.state() == v1::RUN_STATE_ENDING  ? "ending"
                                                             : "ended";
    const auto kind = FromProto(r.phase());
    runs.push_back({{"id", r.run()},
                    {"campaign", r.campaign()},
                    {"state", state},
                    {"waits_for", TextsJson(r.waits_for())},
                    {"since_ns", r.since_ns()},
                    {"agents", TextsJson(r.agents())},
                    {"steps", r.steps()},
                    {"step", r.step()},
                    {"step_name", r.step_name()},
                    {"phase", kind.ok() ? Json(std::string(PhaseKindName(*kind))) : Json(nullptr)},
                    {"progress", r.progress()},
                    {"left_ns", r.left_ns()},
                    {"iops", r.iops()},
                    {"outcome", r.outcome().empty() ? Json(nullptr) : Json(r.outcome())},
                    {"path", r.path().empty() ? Json(nullptr) : Json(r.path())}});
  }
  return Dump({{"event", "status"}, {"draining", in.draining()}, {"runs", runs}});
}

std::string JsonCancelled(const v1::CancelRunReply& reply, bool now) {
  return Dump({{"event", "cancelled"}, {"id", reply.run()}, {"had_begun", !reply.waiting()}, {"now", now}});
}

std::string JsonVersion(const std::string& build, int api_min, int api_max) {
  return Dump({{"event", "version"}, {"build", build}, {"api_min", api_min}, {"api_max", api_max}});
}

}  // namespace muster
