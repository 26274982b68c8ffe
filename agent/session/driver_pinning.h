#pragma once
#include <cstdint>

#include "agent/engine/engine.h"

namespace muster::agent {

enum class PinMode : uint8_t { kAuto, kYes, kNo };

// Whether another process of this program's name runs here, as far as /proc shows. Reads /proc; a few ms.
bool AloneOnHost();

// Pinning and spinning of a phase about to be prepared. kAuto: only when this agent is alone on its host; worker
// threads never outnumber the allowed CPUs. Spinning for pacing follows pinning: two agents spinning on one CPU would
// measure each other.
EngineOptions WithPinning(EngineOptions options, PinMode mode, bool alone);

}  // namespace muster::agent
