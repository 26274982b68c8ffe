#pragma once
#include <atomic>

#include "controller/cli/verbs.h"

namespace muster {

// A full-screen view of a running controller's fleet until `q`, a raised `cancel` or `leave`: exit code 0, the terminal
// as it was. Usage (2) without a terminal that can be drawn on or for a run that is not there, infrastructure (3) when
// no controller answers at the beginning; one that is lost later is waited for.
int TopVerb(const RemoteVerbOptions& options, const std::atomic<int>& cancel, const std::atomic<int>& leave);

}  // namespace muster
