#pragma once
#include <string>

#include "controller/service/controller_server.h"

namespace muster {

// One target as `muster targets probe` prints it: for people, and as one line of JSON with "event": "probe". Neither
// holds a secret: a view has none.
std::string ProbeText(const TargetView& view);
std::string JsonProbe(const TargetView& view);

}  // namespace muster
