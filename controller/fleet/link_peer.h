#pragma once
#include <grpcpp/grpcpp.h>

#include <optional>
#include <string>

#include "common/tls/peer.h"

namespace muster {

// Who is at the other end of a call.
struct CallPeer {
  std::string address;              // as gRPC names it, e.g. "ipv4:192.0.2.1:50000"
  bool tcp = false;                 // not over the Unix socket
  std::optional<PeerIdentity> who;  // of its certificate; none over the Unix socket and insecure TCP

  bool insecure_tcp() const { return tcp && !who; }
};

CallPeer PeerOf(const grpc::ServerContextBase& context);
// The identity that a verified client certificate carries.
std::optional<PeerIdentity> IdentityOf(const grpc::AuthContext& context);

}  // namespace muster
