#pragma once
#include <atomic>

#include "common/base/clock.h"
#include "controller/fleet/gateway.h"
#include "controller/run/run_control.h"

namespace muster {

// Runs the plan on the agents that are there and returns when everything is detached, sealed and stored; always within
// its deadlines. The calling thread becomes the run loop: state machine and merge; a store thread is started beside it.
// Reports are committed first, then acknowledged; a full store queue stops the reading of reports, never Control.
// `cancel`: 1 ends after the current interval and keeps what was measured, 2 ends at once.
// One run at a time for a gateway. `clock` is the fleet's: the one that answers Beats.
RunOutcome DriveRun(const Plan& plan, const RunOptions& options, RunObserver& observer, const std::atomic<int>& cancel,
                    AgentGateway& gateway, const Clock& clock);

}  // namespace muster
