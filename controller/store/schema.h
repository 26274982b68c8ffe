#pragma once

#include "absl/status/status.h"
#include "controller/store/sqlite.h"

namespace muster {

// Layout of the run file. Version 1; a file of a later version is refused, not guessed at.
inline constexpr int64_t kRunFileVersion = 1;
inline constexpr int64_t kRunFileApplication = 0x6d737472;  // "mstr"

// Creates the tables in an empty database, WAL and incremental vacuum included.
absl::Status CreateSchema(Database& db);
// RUN_DAMAGED when it is some other database, RUN_NEWER when a later release wrote it.
absl::Status CheckSchema(Database& db);

}  // namespace muster
