#pragma once

#include "absl/status/status.h"
#include "controller/store/sqlite.h"

namespace muster {

// Layout of the run file. Version 2 (1 had no tally); a file of another version is refused, not guessed at.
inline constexpr int64_t kRunFileVersion = 3;
inline constexpr int64_t kRunFileApplication = 0x6d737472;  // "mstr"

// Creates the tables in an empty database, WAL and incremental vacuum included.
absl::Status CreateSchema(Database& db);
// RUN_DAMAGED when it is some other database, RUN_NEWER or RUN_OLDER when a release with another layout wrote it.
absl::Status CheckSchema(Database& db);

}  // namespace muster
