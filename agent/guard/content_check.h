#pragma once
#include <optional>

#include "absl/status/status.h"
#include "agent/guard/block_guard.h"
#include "common/plan/plan.h"

namespace muster {

// The part of the write guard that is about what lies there: both ends of the device, and whether the campaign permits
// losing it. `fd` is the device (with or without O_DIRECT), held exclusively, or an image of its size that has both
// ends (a LUN that this host reaches without its kernel); found.place, size, logical_block and identities are set.
// Fills in ends, content and overwrites. Reads only. TARGET_HAS_DATA, TARGET_WRONG_ID, TARGET_WRONG_SIZE, SYS_*.
absl::Status CheckContent(const std::optional<Overwrite>& overwrite, int fd, BlockFindings& found);

}  // namespace muster
