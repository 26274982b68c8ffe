#pragma once
#include <fmt/format.h>

#include <string_view>

namespace muster {

// Results to stdout, everything else to stderr. A closed pipe or a full disk behind them never ends a run: what cannot
// be written is dropped, and stdout's failure is remembered for the exit code. Thread-safe.
void PutOut(std::string_view text);
void PutErr(std::string_view text);
// Flushes stdout; false when anything written to it has been lost.
bool FlushOut();

template <typename... Args>
void Out(fmt::format_string<Args...> format, Args&&... args) {
  PutOut(fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void Err(fmt::format_string<Args...> format, Args&&... args) {
  PutErr(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace muster
