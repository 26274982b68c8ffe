#pragma once
#include "controller/aggregate/figures.h"

namespace muster::test {

// Every field set to something of its own.
StepResult RandomResult(uint32_t step, uint64_t seed);
FleetInterval RandomInterval(int64_t interval, uint64_t seed);
// What retention leaves of the initiators' histograms.
void DropCounts(FleetInterval& interval);

// Catch2 checks, field by field, floating point by its bits.
void CheckSame(const StepResult& a, const StepResult& b);
void CheckSameFleet(const FleetInterval& a, const FleetInterval& b);
void CheckSame(const KindFigures& a, const KindFigures& b);

}  // namespace muster::test
