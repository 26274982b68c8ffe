#include "common/base/log_file.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "controller/cli/output.h"
#include "controller/cli/remote.h"
#include "controller/cli/session.h"
#include "controller/cli/verbs.h"
#include "controller/service/serve_controller.h"

namespace muster {

int ServeVerb(const ServeVerbOptions& options, const std::atomic<int>& stop, const std::atomic<int>& reopen) {
  if (!options.log_file.empty()) {
    if (absl::Status status = LogToFile(options.log_file); !status.ok()) return Fail(status, false, kExitUsage);
  }
  ServeOptions serve{
      .listen = options.listen, .runs_dir = options.runs_dir, .lease = options.lease, .drain = options.drain};
  if (serve.listen.empty()) {
    const std::string socket = DefaultServeSocket();
    if (socket.empty()) {
      return Fail(MakeError(absl::StatusCode::kInvalidArgument,
                            {.code = "LISTEN_MISSING",
                             .place = "muster serve",
                             .message = "XDG_RUNTIME_DIR is not set, so there is no usual place for the socket",
                             .next = "Name one with --listen unix:/absolute/path."}),
                  false, kExitUsage);
    }
    serve.listen = "unix:" + socket;
  }
  if (serve.runs_dir.empty()) serve.runs_dir = DefaultServeRunsDir();
  auto controller = ServeController::Listen(serve);
  if (!controller.ok()) {
    const bool usage = absl::IsInvalidArgument(controller.status());
    return Fail(controller.status(), false, usage ? kExitUsage : kExitInfrastructure);
  }
  // Who starts it waits for this line.
  Err("muster: listening on {}\n", serve.listen);
  (*controller)->Serve(stop, reopen);
  return kExitOk;
}

}  // namespace muster
