#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "controller/service/listener.h"

namespace muster {

struct ServeOptions {
  ListenOptions listen;
  std::string runs_dir;  // made if it is not there
  Nanos lease = 10 * kSecond;
  Nanos drain = 5 * kMinute;  // bound of a drain, then runs are stopped at once
};

// The long-running controller: agents and clients on one port, a queue of runs, several runs at a time on agents that
// are not shared.
class ServeController {
 public:
  // Errors of Listener, RUNS_DIR. From then on the process makes no
  // core dump: it holds secrets of campaigns.
  static absl::StatusOr<std::unique_ptr<ServeController>> Listen(const ServeOptions& options);
  virtual ~ServeController() = default;
  // Where it listens, with the ports that were chosen for port 0.
  virtual std::vector<Endpoint> Listening() const = 0;
  // Serves until `stop` is raised, then drains: 1 takes no new runs, cancels what waits and ends each run after its
  // interval; 2, or the drain's bound, stops them at once. Agents get a Goodbye. `reopen` is counted up to reopen the
  // log file. Blocks; to be called once.
  virtual void Serve(const std::atomic<int>& stop, const std::atomic<int>& reopen) = 0;
};

}  // namespace muster
