#include <utility>

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
  ServeOptions serve{.listen = {}, .runs_dir = options.runs_dir, .lease = options.lease, .drain = options.drain};
  serve.listen.tls = options.tls;
  serve.listen.insecure_tcp = options.insecure_tcp;
  for (const std::string& text : options.listen) {
    const auto endpoint = ParseEndpoint(text);
    if (!endpoint.ok()) return Fail(AtPlace(endpoint.status(), "--listen"), false, kExitUsage);
    if (!endpoint->is_unix()) {
      serve.listen.tcp.push_back(*endpoint);
    } else if (!std::exchange(serve.listen.socket_path, endpoint->path).empty()) {
      return Fail(MakeError(absl::StatusCode::kInvalidArgument,
                            {.code = "USAGE", .place = "--listen", .message = "one Unix socket is enough", .next = ""}),
                  false, kExitUsage);
    }
  }
  if (options.insecure_tcp && options.tls.any()) {
    return Fail(MakeError(absl::StatusCode::kInvalidArgument, {.code = "USAGE",
                                                               .place = "--ca, --cert, --key",
                                                               .message = "with --insecure-tcp there is no TLS",
                                                               .next = "Leave one or the other out."}),
                false, kExitUsage);
  }
  if (serve.listen.tcp.empty() && (options.tls.any() || options.insecure_tcp)) {
    return Fail(MakeError(absl::StatusCode::kInvalidArgument,
                          {.code = "USAGE",
                           .place = options.insecure_tcp ? "--insecure-tcp" : "--ca, --cert, --key",
                           .message = "they are for TCP, and no port is listened on",
                           .next = "Name one with --listen HOST:PORT."}),
                false, kExitUsage);
  }
  if (options.listen.empty()) {
    serve.listen.socket_path = DefaultServeSocket();
    if (serve.listen.socket_path.empty()) {
      return Fail(MakeError(absl::StatusCode::kInvalidArgument,
                            {.code = "LISTEN_MISSING",
                             .place = "muster serve",
                             .message = "XDG_RUNTIME_DIR is not set, so there is no usual place for the socket",
                             .next = "Name one with --listen unix:/absolute/path."}),
                  false, kExitUsage);
    }
  }
  if (serve.runs_dir.empty()) serve.runs_dir = DefaultServeRunsDir();
  auto controller = ServeController::Listen(serve);
  if (!controller.ok()) {
    const bool usage = absl::IsInvalidArgument(controller.status()) || absl::IsFailedPrecondition(controller.status());
    return Fail(controller.status(), false, usage ? kExitUsage : kExitInfrastructure);
  }
  // Who starts it waits for this line.
  for (const Endpoint& endpoint : (*controller)->Listening()) Err("muster: listening on {}\n", endpoint.Text());
  (*controller)->Serve(stop, reopen);
  return kExitOk;
}

}  // namespace muster
