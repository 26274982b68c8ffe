#pragma once
#include <fmt/format.h>

#include <string>
#include <string_view>

namespace muster {

// Logs go to stderr only; stdout is for results. Thread-safe; may block on stderr, so never called per operation.
enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

// `program` prefixes every line ("muster", "agent local-1"). Call once, before threads start.
void InitLogging(std::string_view program, LogLevel level);
LogLevel GetLogLevel();
void LogText(LogLevel level, std::string_view text);

template <typename... Args>
void Log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (level < GetLogLevel()) return;
  LogText(level, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace muster
