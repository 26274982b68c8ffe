#pragma once
#include <string>

#include "muster/v1/controller_api.pb.h"

namespace muster {

// What `muster agents` and `muster status` print for people. Pure.
std::string AgentsText(const v1::AgentList& agents);
std::string RunsText(const v1::RunList& runs);

}  // namespace muster
