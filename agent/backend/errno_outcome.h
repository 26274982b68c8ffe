#pragma once
#include "agent/backend/backend.h"

namespace muster {

// The outcome class of a failed kernel operation; `err` is a positive errno.
IoOutcome OutcomeOfErrno(int err);

}  // namespace muster
