#pragma once
#include "absl/status/statusor.h"
#include "controller/fleet/agent_messages.h"
#include "muster/v1/agent_link.pb.h"

namespace muster {

// Between the wire and agent_messages.h. Everything received is validated by its rules first (ValidateMessage), then
// decoded; a typed error names the field. Pure; thread-safe.

absl::StatusOr<HelloInfo> DecodeHello(const v1::Hello& hello);
BeatInfo DecodeBeat(const v1::Beat& beat);
// Everything else an agent says on Control; Hello and Beat are not taken here (MESSAGE_OUT_OF_ORDER).
absl::StatusOr<AgentSays> DecodeMessage(const v1::AgentMessage& message);
absl::StatusOr<AgentReport> DecodeReport(const v1::ReportMessage& message);

v1::ControllerMessage EncodeCommand(uint64_t seq, const AgentCommand& command);

}  // namespace muster
