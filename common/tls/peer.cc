#include "common/tls/peer.h"

#include <algorithm>

namespace muster {
namespace {

constexpr std::string_view kAgent = "muster://agent/", kUser = "muster://user/", kRole = "?role=";

bool GoodName(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  });
}

}  // namespace

std::string_view RoleName(Role role) {
  switch (role) {
    case Role::kViewer:
      return "viewer";
    case Role::kOperator:
      return "operator";
    case Role::kAgent:
      return "agent";
  }
  return "unknown";
}

std::optional<PeerIdentity> ParsePeerUri(std::string_view uri) {
  if (uri.rfind(kAgent, 0) == 0) {
    const std::string_view name = uri.substr(kAgent.size());
    if (!GoodName(name)) return std::nullopt;
    return PeerIdentity{.role = Role::kAgent, .name = std::string(name)};
  }
  if (uri.rfind(kUser, 0) != 0) return std::nullopt;
  uri.remove_prefix(kUser.size());
  const size_t at = uri.find(kRole);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view name = uri.substr(0, at), role = uri.substr(at + kRole.size());
  if (!GoodName(name)) return std::nullopt;
  for (const Role known : {Role::kViewer, Role::kOperator}) {
    if (role == RoleName(known)) return PeerIdentity{.role = known, .name = std::string(name)};
  }
  return std::nullopt;
}

}  // namespace muster
