#pragma once
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/stats/counts_codec.h"
#include "common/stats/moments.h"

namespace muster {

// The most values a histogram holds: what one word of the payload carries.
inline constexpr uint64_t kMaxHistogramCount = INT64_MAX;

// HISTOGRAM_CORRUPT unless `moments` can be those of values counted like this: same count, min and max in the outermost
// counters, sum and sum of squares between those of the counters' lowest and highest values, overflow in the last
// counter. `counters` as DecodeCounts gives them. Pure; the text says which figure contradicts which.
absl::Status CheckConsistent(const Moments& moments, const std::vector<Counter>& counters);

}  // namespace muster
