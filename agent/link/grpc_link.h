#pragma once
#include <memory>

#include "agent/session/link.h"
#include "common/base/clock.h"
#include "common/tls/credentials.h"
#include "common/tls/endpoint.h"

namespace muster::agent {

// The controller and how to reach it.
struct ControllerAddress {
  Endpoint endpoint;
  TlsFiles tls;           // for TCP; read at each Dial, so a renewed certificate needs no restart
  bool insecure = false;  // TCP without TLS
};

// The link to a controller over gRPC: a channel of its own for each Dial, Control and Report on it. What comes in is
// validated, decoded and handed to `listener` on gRPC's threads. The destructor ends what is open within 3 s.
std::unique_ptr<ControllerLink> MakeGrpcLink(ControllerAddress address, const Clock& clock, LinkListener& listener);

}  // namespace muster::agent
