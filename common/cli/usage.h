#pragma once
#include "absl/status/status.h"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace muster {

// Why a command line was refused, as a typed error: UNKNOWN_OPTION and UNKNOWN_COMMAND (with the nearest that exists),
// UNKNOWN_ARGUMENT, MISSING_COMMAND, MISSING_ARGUMENT, or USAGE for a value that does not fit. `app` is the whole
// program after the parse that threw `error`; what the parser asks to be printed (help) is no error and not for here.
absl::Status UsageError(const CLI::App& app, const CLI::ParseError& error);

}  // namespace muster
