#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/tls/credentials.h"
#include "muster/v1/controller_api.pb.h"

namespace muster {

// Events of one run as they come. A reader thread takes them from the network and stops while too many wait here: a
// client that does not call Next is one that does not read.
class RunWatch {
 public:
  virtual ~RunWatch() = default;
  // The next event; nothing after `timeout`. A status once it is over: OK after RunEnded, else why it broke off
  // (WATCHER_TOO_SLOW, CONTROLLER_LOST, and the controller's typed errors).
  virtual absl::StatusOr<std::optional<v1::RunEvent>> Next(Nanos timeout) = 0;
  virtual bool over() const = 0;
};

// What `muster`'s verbs ask of a controller. Methods block, each within its deadline; one thread at a time. Errors are
// the controller's own, or CONTROLLER_NOT_THERE and CONTROLLER_LOST. Everything received is validated.
class ControllerClient {
 public:
  // `address`: "unix:/path" or "HOST[:PORT]"; the latter with mutual TLS unless `insecure`. ENDPOINT_INVALID, TLS_*
  // (tls/credentials.h), CONTROLLER_NOT_THERE after `timeout` at the latest.
  static absl::StatusOr<std::unique_ptr<ControllerClient>> Connect(const std::string& address, const TlsFiles& tls = {},
                                                                   bool insecure = false, Nanos timeout = 5 * kSecond);
  virtual ~ControllerClient() = default;
  virtual absl::StatusOr<v1::AgentList> ListAgents() = 0;
  virtual absl::StatusOr<v1::RunList> ListRuns() = 0;
  virtual absl::StatusOr<std::string> Submit(const v1::SubmitRunRequest& request) = 0;
  virtual absl::StatusOr<v1::CancelRunReply> Cancel(const std::string& run, bool now) = 0;
  // It must not outlive the client. `detail`: figures of each initiator too.
  virtual std::unique_ptr<RunWatch> Watch(const std::string& run, bool detail = false) = 0;
  virtual absl::StatusOr<std::string> Result(const std::string& run, v1::ResultForm form) = 0;
  // Ends a call of ListAgents, ListRuns, Submit or Cancel that waits for its answer, and every later one at once
  // (CONTROLLER_LOST). From any thread.
  virtual void Abort() = 0;
};

}  // namespace muster
