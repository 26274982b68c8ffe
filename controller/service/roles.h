#pragma once
#include <optional>
#include <string_view>

#include "common/tls/peer.h"

namespace muster {

// The one table of who may call what over TCP. A method that is not in it is refused, whatever is registered.
// `method`: "/muster.v1.AgentLink/Control". Pure.
std::optional<Role> RequiredRole(std::string_view method);

// Whether `has` is enough for `needs`: an operator may do what a viewer may, an agent only what agents do.
bool Allows(Role has, Role needs);

}  // namespace muster
