#pragma once
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "agent/backend/iscsi/connection_spec.h"
#include "common/plan/plan.h"

namespace muster {

// Sessions of one initiator name to one target differ in the ISID's qualifier (RFC 7143 6.3.5): connections of a
// measured load are 0, 1, ...; what an agent opens beside them (to look, to label, to fill) is at or above this.
inline constexpr uint16_t kFirstExtraQualifier = 0x4000;

// The connection of `initiator` to the LUN in object `slot` of a target. Initiators are dealt round-robin over (source,
// portal) pairs, so that all pairs come in turn. INVALID_FIELD for an object the target
// does not have and for a portal that is no HOST[:PORT].
absl::StatusOr<IscsiConnectionSpec> SpecOf(const IscsiTarget& target, uint32_t initiator, uint32_t slot,
                                           uint16_t qualifier);

// A qualifier of this process for connections beside the load: of its own in each process and call, as far as chance
// goes (one in 49,151).
uint16_t ExtraQualifier();
// The n-th (below 24,000) of those that one user of `first` opens at once: unlike all others of his, and so is each
// + 1.
uint16_t ExtraQualifier(uint16_t first, size_t n);

}  // namespace muster
