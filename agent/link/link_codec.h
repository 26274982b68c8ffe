#pragma once
#include "absl/status/statusor.h"
#include "agent/session/messages.h"
#include "muster/v1/agent_link.pb.h"

namespace muster::agent {

// Between the session's plain structs and the messages of agent_link.proto. What comes in has passed ValidateMessage.
// Pure; thread-safe.

v1::AgentMessage ToWire(const Hello& hello);
v1::AgentMessage ToWire(uint64_t seq, const AgentSays& message);
v1::ReportMessage ToWire(const Report& report, uint64_t link_id);

// MESSAGE_INVALID with the field's path.
absl::StatusOr<ControllerSays> FromWire(const v1::ControllerMessage& message);
// The phase a message names, as far as it can be read; for the refusal of one that cannot be decoded.
PhaseKey RawKeyOf(const v1::ControllerMessage& message);

}  // namespace muster::agent
