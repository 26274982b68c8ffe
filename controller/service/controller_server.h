#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/plan/target_probe.h"
#include "controller/run/run_control.h"
#include "controller/service/listener.h"

namespace muster {

struct ServerOptions {
  ListenOptions listen;
  Nanos lease = 10 * kSecond;
  std::string build;
};

// What one agent found when it looked at the plan's targets.
struct TargetView {
  std::string agent, host;
  std::string target, place, identity, found, verdict, would_write;
  uint64_t size = 0;
  bool writable = false;
  absl::Status refusal;
  std::vector<std::string> notes;  // "target on the same host"
  std::optional<TargetProbe> probe;
};

// What Probe is to look at. `objects`: by slot, as a run would use them; empty: none of its LUNs is meant.
struct ProbeRequest {
  Target target;
  std::vector<ObjectSpec> objects;
  bool writes = false;  // the guard is asked about files and devices too
};

// The embedded controller: gRPC server, fleet, run loop, store thread. Methods block; call them from one thread.
class ControllerServer {
 public:
  // Errors of Listener.
  static absl::StatusOr<std::unique_ptr<ControllerServer>> Listen(const ServerOptions& options);
  virtual ~ControllerServer() = default;
  // Where it listens, with the ports that were chosen for port 0.
  virtual std::vector<Endpoint> Listening() const = 0;
  // Until `count` agents said Hello; AGENTS_MISSING names who is there and refused Hellos at the deadline; CANCELLED
  // when `cancel`.
  virtual absl::Status WaitForAgents(uint32_t count, Nanos timeout, const std::atomic<int>& cancel) = 0;
  // Asks every agent to look at the plan's targets; reads only.
  virtual absl::StatusOr<std::vector<TargetView>> Inspect(const Plan& plan, Nanos timeout) = 0;
  // Asks every agent what the target offers, an iSCSI target with all its LUNs; reads only. One view an agent.
  virtual absl::StatusOr<std::vector<TargetView>> Probe(const ProbeRequest& request, Nanos timeout) = 0;
  // Runs the plan on the agents that are there. `cancel` 1: stop after the current interval and keep what was
  // measured; 2: stop at once (abort). Returns when detached, sealed and stored, always within its deadlines.
  virtual RunOutcome Run(const Plan& plan, const RunOptions& options, RunObserver& observer,
                         const std::atomic<int>& cancel) = 0;
  // Says Goodbye to all agents and closes. Idempotent; bounded to 5 s.
  virtual void Shutdown() = 0;
};

}  // namespace muster
