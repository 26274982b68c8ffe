#pragma once
#include <string>

namespace muster {

// True if a portal with a numeric address ("10.0.0.5:3260", "[fe80::1%eth0]:3260") lies on this host: loopback, or an
// address of one of its interfaces (in this network namespace). Does not block; asks nobody.
bool IsOwnAddress(const std::string& numeric_portal);

// What is noted beside figures when it does: generator and target share CPUs and no network lies between them.
inline constexpr const char* kSameHost = "target on the same host";

}  // namespace muster
