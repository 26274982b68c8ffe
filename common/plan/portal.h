#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster {

struct Portal {
  std::string host;
  uint16_t port = 3260;  // RFC 7143 4.2.7.1: assigned to iSCSI
};

// "host", "host:port", "[v6]", "[v6]:port", "v6" (several colons). Nothing when it is none of these; whether there is
// such a host only somebody who connects can tell. Pure.
std::optional<Portal> ParsePortal(std::string_view text);

}  // namespace muster
