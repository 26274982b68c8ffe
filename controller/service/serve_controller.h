#pragma once
#include <atomic>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"

namespace muster {

struct ServeOptions {
  std::string listen;    // "unix:/absolute/path"; its directory is 0700 and of this user
  std::string runs_dir;  // made if it is not there
  Nanos lease = 10 * kSecond;
  Nanos drain = 5 * kMinute;  // bound of a drain, then runs are stopped at once
};

// The long-running controller: agents and clients on one port, a queue of runs, several runs at a time on agents that
// are not shared.
class ServeController {
 public:
  // ADDRESS_INVALID, SOCKET_PATH_TOO_LONG, SOCKET_IN_USE, SOCKET_DIRECTORY, RUNS_DIR. From then on the process makes no
  // core dump: it holds secrets of campaigns.
  static absl::StatusOr<std::unique_ptr<ServeController>> Listen(const ServeOptions& options);
  virtual ~ServeController() = default;
  // Serves until `stop` is raised, then drains: 1 takes no new runs, cancels what waits and ends each run after its
  // interval; 2, or the drain's bound, stops them at once. Agents get a Goodbye. `reopen` is counted up to reopen the
  // log file. Blocks; to be called once.
  virtual void Serve(const std::atomic<int>& stop, const std::atomic<int>& reopen) = 0;
};

}  // namespace muster
