#pragma once
#include <string>
#include <vector>

#include "controller/report/report.h"
#include "controller/report/sparkline.h"

namespace muster {

std::string ResultsTableText(const std::vector<StepResult>& steps);
// Why a step is not valid: its message, and every check that failed.
std::vector<std::string> Reasons(const StepResult& result);
// What a reader of its figures must know ("target on the same host"), each once: the facts that agents call "note".
std::vector<std::string> Notes(const StepResult& result);
// Everything about one step but its place in the table.
std::string StepText(const StepResult& result, const std::vector<SparkPoint>& points, size_t width);

}  // namespace muster
