#pragma once
#include <grpcpp/grpcpp.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/tls/credentials.h"
#include "common/tls/endpoint.h"

namespace muster {

// Where a controller listens.
struct ListenOptions {
  std::string socket_path;    // Unix socket in a 0700 directory of this user; empty: none
  std::vector<Endpoint> tcp;  // ports: mutual TLS with `tls`, or nothing at all with `insecure_tcp`
  TlsFiles tls;
  bool insecure_tcp = false;  // for the lab: whoever reaches the port may do everything
};

// The ports of one gRPC server: adds them with the credentials each needs, and says what gRPC does not. Not
// thread-safe.
class Listener {
 public:
  explicit Listener(ListenOptions options) : options_(std::move(options)) {}
  // Before BuildAndStart. SOCKET_PATH_TOO_LONG, SOCKET_IN_USE, SOCKET_DIRECTORY (not 0700 or not ours); TLS_*
  // (tls/credentials.h).
  absl::Status AddTo(grpc::ServerBuilder& builder);
  // After it. SOCKET_IN_USE, PORT_IN_USE: the server is to be ended then, since gRPC goes on with the ports it got.
  absl::Status Opened(const grpc::Server* server);
  // With the ports that were chosen for port 0.
  const std::vector<Endpoint>& endpoints() const { return endpoints_; }
  // The server has ended: the socket goes.
  void Close();

 private:
  absl::Status AddTcp(grpc::ServerBuilder& builder);

  const ListenOptions options_;
  std::vector<int> ports_;
  std::vector<Endpoint> endpoints_;
};

}  // namespace muster
