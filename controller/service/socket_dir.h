#pragma once
#include <string>

#include "absl/status/status.h"

namespace muster {

// Makes sure that nobody but this user can reach the socket: its directory is created 0700 if it is not there, and
// refused unless it is a directory (no link) of this user without any access for others. That is the protection of
// the Unix socket: gRPC does not hand out the peer's credentials (SO_PEERCRED).
// Then frees the path: a socket that nobody listens on any more is removed, one that answers is SOCKET_IN_USE.
// Typed errors SOCKET_PATH_TOO_LONG, SOCKET_DIRECTORY, SOCKET_IN_USE.
absl::Status PrepareSocketPath(const std::string& path);

// Host identity as agents state it, to know whose clock is whose.
std::string BootId();           // empty if it cannot be read
uint64_t TimeNamespaceInode();  // 0 likewise

}  // namespace muster
