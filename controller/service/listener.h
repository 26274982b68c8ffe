#pragma once
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/tls/credentials.h"
#include "common/tls/endpoint.h"
#include "controller/fleet/link_hub.h"
#include "controller/service/unread_guard.h"

namespace muster {

// Where a controller listens.
struct ListenOptions {
  std::string socket_path;    // Unix socket in a 0700 directory of this user; empty: none
  std::vector<Endpoint> tcp;  // ports: mutual TLS with `tls`, or nothing at all with `insecure_tcp`
  TlsFiles tls;
  bool insecure_tcp = false;  // for the lab: whoever reaches the port may do everything
};

// The one gRPC server of a controller and its ports, each with the credentials it needs. Not thread-safe.
class Listener {
 public:
  explicit Listener(ListenOptions options) : options_(std::move(options)) {}
  // Serves them from now on; they outlive Close. SOCKET_PATH_TOO_LONG, SOCKET_IN_USE, SOCKET_DIRECTORY (not 0700 or not
  // ours); TLS_* (tls/credentials.h); PORT_IN_USE.
  absl::Status Listen(const std::vector<grpc::Service*>& services);
  bool listening() const { return server_ != nullptr; }
  // With the ports that were chosen for port 0.
  const std::vector<Endpoint>& endpoints() const { return endpoints_; }
  // Says Goodbye to the agents of `hub`, ends what is open, within 4 s in all, and removes the socket. When it returns,
  // no service is called any more. Idempotent; to be called before the services and the hub go.
  void Close(LinkHub& hub);

 private:
  absl::Status AddTo(grpc::ServerBuilder& builder);
  absl::Status AddTcp(grpc::ServerBuilder& builder);
  // gRPC goes on with the ports it got.
  absl::Status Opened();

  const ListenOptions options_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<UnreadGuard> guard_;
  std::vector<int> ports_;
  std::vector<Endpoint> endpoints_;
};

// The fleet of a controller on this host.
FleetOptions FleetOf(std::string build, Nanos lease);
// A number that no other process of a controller has; never 0.
uint64_t RandomEpoch();

}  // namespace muster
