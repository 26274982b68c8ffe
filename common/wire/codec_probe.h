#pragma once
#include "common/plan/target_probe.h"
#include "muster/v1/agent_link.pb.h"

namespace muster {

// Text is made to fit its rule; what is beyond a limit of number is left out.
v1::TargetProbe ToProto(const TargetProbe& probe);
TargetProbe FromProto(const v1::TargetProbe& probe);

}  // namespace muster
