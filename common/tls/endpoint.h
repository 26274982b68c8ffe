#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace muster {

// Where a controller listens, or is dialled.
struct Endpoint {
  static constexpr uint16_t kDefaultPort = 7676;

  std::string path;  // of a Unix socket; empty: TCP
  std::string host;  // name or address, without brackets
  uint16_t port = 0;

  bool is_unix() const { return !path.empty(); }
  // As people write it: "unix:/path", "host:port", "[v6]:port". ParseEndpoint reads it back.
  std::string Text() const;
  // As gRPC dials it: "unix:/path", "ipv4:...", "ipv6:...", "dns:///host:port".
  std::string DialTarget() const;
};

// "unix:/absolute/path", "HOST", "HOST:PORT", "[v6]", "[v6]:PORT"; port 0 is for listening on any free one. Typed error
// ENDPOINT_INVALID. Pure; whether such a host is there only somebody who connects can tell.
absl::StatusOr<Endpoint> ParseEndpoint(std::string_view text);

}  // namespace muster
