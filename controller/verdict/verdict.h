#pragma once
#include <vector>

#include "controller/aggregate/figures.h"

namespace muster {

// The checks of this release: sums, coverage, errors, intervals, operation_age, links. Any failing one makes the step
// INVALID.
// `op_timeout` is the limit for operation_age.
std::vector<Check> Evaluate(const StepFigures& figures, Nanos op_timeout);
bool AnyFailed(const std::vector<Check>& checks);

}  // namespace muster
