#pragma once
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "controller/fleet/gateway.h"
#include "controller/service/controller_server.h"

namespace muster {

// Asks every agent that is there (reads only) and waits for all answers. Typed errors AGENTS_MISSING, AGENT_LOST,
// INSPECT_TIMEOUT (names who is silent), INSPECT_INCOMPLETE. One at a time, not during a run.
absl::StatusOr<std::vector<TargetView>> InspectTargets(const InspectCommand& command, AgentGateway& gateway,
                                                       Nanos timeout, const Clock& clock);

// To look at every target of a plan.
InspectCommand InspectionOf(const Plan& plan, uint64_t request);

}  // namespace muster
