#pragma once
#include <memory>

#include "agent/engine/engine.h"
#include "agent/engine/worker_thread.h"

namespace muster {

// Engine::Prepare with backends of one's own making (tests, benchmarks).
absl::StatusOr<std::unique_ptr<Engine>> PrepareEngine(const PhaseSpec& spec, const EngineTarget& target,
                                                      const EngineOptions& options, const Clock& clock,
                                                      const FleetTime& fleet, const LeaseEnd& lease,
                                                      EngineListener& listener, Nanos deadline,
                                                      BackendFactory make_backend);

}  // namespace muster
