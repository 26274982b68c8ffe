#pragma once
#include <string>

#include "absl/status/status.h"

namespace muster {

// From now on log lines go to this file, appended, with date, time in UTC and level, and no longer to stderr. To be
// called after InitLogging. LOG_FILE names the path. Thread-safe.
absl::Status LogToFile(const std::string& path);

// Opens the file anew, for who has moved it away (logrotate): lines follow the name, none is lost or split. If it
// cannot be opened the old one stays in use. OK without a log file. Thread-safe; not for signal handlers.
absl::Status ReopenLogFile();

}  // namespace muster
