#pragma once
#include <string>

namespace muster {

// Logs a refusal as a warning. Whoever can reach the port can cause these lines: at most 10 a second for the whole
// process, the rest is counted. Thread-safe; does not block for longer than a line takes.
void LogRefusal(const std::string& text);

}  // namespace muster
