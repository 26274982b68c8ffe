#pragma once
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/backend/iscsi/connection_spec.h"
#include "agent/backend/iscsi/probe.h"
#include "agent/guard/block_guard.h"
#include "agent/guard/fd.h"
#include "common/plan/plan.h"

namespace muster {

// One LUN as it was found over a session of its own. Every function here may block until its deadline (absolute).
struct IscsiLun {
  IscsiConnectionSpec spec;
  IscsiLunFacts facts;
  BlockFindings found;  // place, size, logical block, identities; with ends and content once examined
  std::vector<std::pair<std::string, std::string>> negotiated;  // by the session that looked
  std::optional<Label> label;                                   // a valid one of this size

  uint64_t Usable(bool labelled) const { return labelled ? found.Usable() : found.size; }
};

// Logs in and reads facts and label. Typed errors: agent/backend/iscsi/errors.h.
absl::StatusOr<IscsiLun> LookAtLun(const IscsiConnectionSpec& spec, Nanos deadline);

// The write guard of a LUN, without the parts that are about a host's own devices: reads both ends into
// an image in memory and judges it as a block device is judged. Reads only. TARGET_HAS_DATA, TARGET_WRONG_ID,
// TARGET_WRONG_SIZE, TARGET_READ_ONLY, TARGET_TOO_SMALL. `found` of the LUN is filled in as far as it came.
absl::Status ExamineLun(IscsiLun& lun, const std::optional<Overwrite>& overwrite, uint64_t needed, Nanos deadline);

// Examines once more and only then writes: zeroes over what the campaign permits losing (8 MiB at both ends), then the
// label with the next generation. TARGET_CHANGED when it is another LUN than examined before.
absl::Status ClaimLun(IscsiLun& lun, const std::optional<Overwrite>& overwrite, uint64_t needed,
                      const std::string& created_by, Nanos deadline);

// A LUN has no exclusive open. Instead, who claims it holds a name made of its label's UUID, in the abstract namespace
// of Unix sockets: another run on this host that reaches it, by whatever portal or target, gets TARGET_HELD. The kernel
// frees the name with the descriptor, so a killed agent leaves nothing behind. Runs on other hosts are not seen.
absl::StatusOr<Fd> HoldLun(const IscsiLun& lun);

}  // namespace muster
