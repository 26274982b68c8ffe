#pragma once
#include <memory>
#include <string>

#include "controller/report/report.h"
#include "tests/unit/store/results.h"
#include "tests/unit/store/store_support.h"

namespace muster::test {

// A stored run of one closed-loop step with known figures: 2 initiators, window of 2 intervals of 1 s after 1 of
// warm-up, 1,000 reads of 100 us and 1,000 writes of 300 us an interval and initiator; and one skipped step.
struct KnownRun {
  TempDir dir;
  std::unique_ptr<RunReader> reader;
};
// `held`: the same figures, but agents left histograms out of every interval.
std::unique_ptr<KnownRun> MakeKnownRun(bool held = false);

// A stored run with every field set, and what was written.
struct RandomRun {
  TempDir dir;
  std::vector<StepResult> results;
  std::vector<FleetInterval> intervals;  // of step 0
  std::unique_ptr<RunReader> reader;
};
std::unique_ptr<RandomRun> MakeRandomRun();

std::string ExportText(RunReader& reader, ExportFormat format);

}  // namespace muster::test
