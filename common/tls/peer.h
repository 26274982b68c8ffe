#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster {

// What a peer may do; each includes the ones before it but kAgent, which is its own.
enum class Role : uint8_t { kViewer, kOperator, kAgent };

std::string_view RoleName(Role role);

// Who a certificate's URI SAN says its holder is: "muster://agent/ID" or "muster://user/NAME?role=viewer|operator".
struct PeerIdentity {
  Role role = Role::kViewer;
  std::string name;
};

// Nothing when it is not of that form. Names: 1 to 64 of letters, digits, '.', '_', '-'. Pure.
std::optional<PeerIdentity> ParsePeerUri(std::string_view uri);

// The DNS SAN every controller's certificate carries: agents and users check this one name, whatever address they dial.
inline constexpr char kControllerName[] = "controller.muster";

}  // namespace muster
