#pragma once
#include <cstddef>
#include <functional>
#include <span>

#include "absl/status/status.h"
#include "agent/backend/iscsi/connection_spec.h"

namespace muster {

inline constexpr size_t kLunsAtOnce = 8;

// Runs work(i) for every spec, up to kLunsAtOnce at once, each on one thread from begin to end, in the order of the
// list; returns when all that began have ended. After an error none begins any more, and the error is that of the first
// in the list that has one. An error at or after `deadline` becomes ISCSI_TOO_SLOW: it names the LUN, what was being
// done (`doing`: "reading both ends") and how many were done by then.
absl::Status ForEachLun(std::span<const IscsiConnectionSpec> specs, const char* doing, Nanos deadline,
                        const std::function<absl::Status(size_t)>& work);

}  // namespace muster
