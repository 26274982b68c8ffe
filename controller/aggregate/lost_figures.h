#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/aggregate/figures.h"

namespace muster {

// One row for each of `agents`: its initiators of `given_up` together, counts and histograms added up. `given_up` are
// the sealed figures of an attempt that begins anew without them; without an interval that counts there is no row.
// Fails only where histograms do not add up (HISTOGRAM_*).
absl::StatusOr<std::vector<LostFigures>> LostRows(const StepFigures& given_up, uint32_t attempt,
                                                  const std::vector<std::string>& agents);

}  // namespace muster
