#include "agent/target/own_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <cstring>

namespace muster {
namespace {

// 127.0.0.0/8 and ::1, and both as IPv4-mapped addresses.
bool IsLoopback(const in6_addr& address) {
  if (IN6_IS_ADDR_V4MAPPED(&address)) return address.s6_addr[12] == 127;
  return IN6_IS_ADDR_LOOPBACK(&address);
}

in6_addr Mapped(const in_addr& address) {
  in6_addr out{};
  out.s6_addr[10] = out.s6_addr[11] = 0xff;
  std::memcpy(&out.s6_addr[12], &address, sizeof address);
  return out;
}

// IPv4 addresses become mapped ones: one comparison for both.
bool Parse(const std::string& portal, in6_addr& out) {
  std::string host = portal;
  if (host.starts_with("[")) {
    host = host.substr(1, host.find(']') - 1);
  } else if (const size_t colon = host.find(':'); colon != std::string::npos && host.rfind(':') == colon) {
    host.resize(colon);
  }
  if (const size_t zone = host.find('%'); zone != std::string::npos) host.resize(zone);
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) {
    out = Mapped(v4);
    return true;
  }
  return inet_pton(AF_INET6, host.c_str(), &out) == 1;
}

}  // namespace

bool IsOwnAddress(const std::string& numeric_portal) {
  in6_addr address{};
  if (!Parse(numeric_portal, address)) return false;
  if (IsLoopback(address)) return true;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return false;
  bool own = false;
  for (const ifaddrs* at = list; at != nullptr && !own; at = at->ifa_next) {
    if (at->ifa_addr == nullptr) continue;
    in6_addr here{};
    if (at->ifa_addr->sa_family == AF_INET) {
      here = Mapped(reinterpret_cast<const sockaddr_in*>(at->ifa_addr)->sin_addr);
    } else if (at->ifa_addr->sa_family == AF_INET6) {
      here = reinterpret_cast<const sockaddr_in6*>(at->ifa_addr)->sin6_addr;
    } else {
      continue;
    }
    own = std::memcmp(&here, &address, sizeof here) == 0;
  }
  freeifaddrs(list);
  return own;
}

}  // namespace muster
