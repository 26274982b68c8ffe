#pragma once
#include <string>
#include <vector>

#include "controller/run/run_control.h"
#include "controller/service/controller_server.h"
#include "muster/v1/controller_api.pb.h"

namespace muster {

// One-line JSON objects of `muster run --json` and `muster plan --json`; every one has a member "event".
std::string JsonRunStarted(const std::string& run_id, const std::string& path);
std::string JsonPhase(const Step& step, PhaseKind phase, Nanos expected);
std::string JsonFill(const FillProgress& fill);
std::string JsonLive(const Step& step, const LiveFigures& live);
std::string JsonText(const std::string& event, const std::string& text);
std::string JsonError(const absl::Status& error);
// {"event":"result", ..., "run": <document of `results show --json`>}
std::string JsonOutcome(const RunOutcome& outcome, int exit_code, const std::string& run_document);
std::string JsonPlan(const Plan& plan, const std::vector<TargetView>& views);
// Of a controller elsewhere.
std::string JsonSubmitted(const std::string& run_id);
std::string JsonAgents(const v1::AgentList& agents);
std::string JsonRuns(const v1::RunList& runs);
std::string JsonCancelled(const v1::CancelRunReply& reply, bool now);
std::string JsonVersion(const std::string& build, int api_min, int api_max);

}  // namespace muster
