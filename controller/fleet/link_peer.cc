#include "controller/fleet/link_peer.h"

#include <grpc/grpc_security_constants.h>

namespace muster {

std::optional<PeerIdentity> IdentityOf(const grpc::AuthContext& context) {
  for (const grpc::string_ref& uri : context.FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME)) {
    if (auto who = ParsePeerUri({uri.data(), uri.size()})) return who;
  }
  return std::nullopt;
}

CallPeer PeerOf(const grpc::ServerContextBase& context) {
  CallPeer peer{.address = context.peer()};
  peer.tcp = peer.address.rfind("unix:", 0) != 0;
  if (const auto auth = context.auth_context(); auth != nullptr) peer.who = IdentityOf(*auth);
  return peer;
}

}  // namespace muster
