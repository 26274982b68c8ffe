#pragma once
#include "absl/status/statusor.h"
#include "controller/cli/verbs.h"
#include "controller/service/controller_server.h"

namespace muster {

// What `muster targets probe` is to look at, with secrets resolved. All errors are the user's: PROBE_SYNTAX,
// SECRET_ON_COMMAND_LINE, SECRET_MISSING, CONTRADICTION, UNKNOWN_TARGET, and those of reading the campaign. No error
// contains a secret, nor what was given in place of a reference to one. Blocks for the read of files.
absl::StatusOr<ProbeRequest> ProbeRequestOf(const ProbeVerbOptions& options);

}  // namespace muster
