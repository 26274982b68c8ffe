#pragma once
#include <memory>
#include <string>

#include "agent/session/link.h"
#include "common/base/clock.h"

namespace muster::agent {

// The link to a controller over gRPC: a channel of its own for each Dial, Control and Report on it. `address` is
// "unix:/path". What comes in is validated, decoded and handed to `listener` on gRPC's threads. The destructor ends
// what is open within 3 s.
std::unique_ptr<ControllerLink> MakeGrpcLink(std::string address, const Clock& clock, LinkListener& listener);

}  // namespace muster::agent
