#include "common/stats/layout.h"

#include <fmt/format.h>

#include "common/base/status.h"

namespace muster {

absl::Status CheckLayout(int digits, uint64_t lowest, uint64_t highest) {
  if (digits == hist::kDigits && lowest == hist::kLowest && highest == hist::kHighest) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      {.code = "HISTOGRAM_LAYOUT",
       .message = fmt::format("histogram layout is {} digits, {} to {} ns; expected {} digits, {} to {} ns", digits,
                              lowest, highest, hist::kDigits, hist::kLowest, hist::kHighest),
       .next = "Use the same build on controller and agents; unlike layouts cannot be merged exactly."});
}

}  // namespace muster
