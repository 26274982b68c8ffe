#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/engine/engine.h"
#include "agent/session/driver_pinning.h"
#include "agent/session/link.h"
#include "agent/session/session_machine.h"
#include "agent/target/target.h"
#include "common/base/clock.h"

namespace muster::agent {

// What the driver calls below it; the defaults are the real ones, tests put others in.
struct DriverSeams {
  std::function<absl::StatusOr<std::unique_ptr<AttachedTarget>>(const AttachRequest&, const AllowList&)> attach;
  std::function<TargetInspection(const Target&, const std::vector<ObjectSpec>&, bool writes, const AllowList&)> inspect;
  std::function<TargetInspection(const Target&, const std::vector<ObjectSpec>&, bool writes, const AllowList&)> probe;
  std::function<absl::StatusOr<std::unique_ptr<Engine>>(const PhaseSpec&, const EngineTarget&, const EngineOptions&,
                                                        const Clock&, const FleetTime&, const LeaseEnd&,
                                                        EngineListener&, Nanos deadline)>
      prepare;
  static DriverSeams Real();
};

struct DriverOptions {
  SessionOptions session;
  EngineOptions engine;
  PinMode pin = PinMode::kAuto;  // decides `engine.pin` and `may_spin` at each Prepare
  AllowList allow;
};

// Feeds the state machine and carries out its actions: the session thread (the one that calls Run), one work thread for
// what blocks (Attach, Inspect, Detach, Engine::Prepare and Join), and the listeners of link and engine, which only
// queue. Backpressure never reaches a worker: what does not fit ends the phase instead.
class SessionDriver {
 public:
  struct Result {
    int exit_code = 0;
    // False: a thread is stuck in a system call or operations are abandoned. Do not destroy the driver, _exit.
    bool clean = true;
  };

  // `clock` must be CLOCK_MONOTONIC of this host (workers wait on it).
  static std::unique_ptr<SessionDriver> Create(DriverOptions options, const Clock& clock,
                                               DriverSeams seams = DriverSeams::Real());
  virtual ~SessionDriver() = default;
  // Where the link is to bring what comes in; valid as long as the driver.
  virtual LinkListener& link_listener() = 0;
  // Blocks until the session says Exit. `link` must outlive the call.
  virtual Result Run(ControllerLink& link) = 0;
  // Aborts, drains, detaches, then Run returns, within SessionDeadlines::shutdown; a second call: at once.
  // Thread-safe; not async-signal-safe.
  virtual void Shutdown(const std::string& why) = 0;
};

}  // namespace muster::agent
