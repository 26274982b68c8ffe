#pragma once
#include <fmt/format.h>

#include <ostream>
#include <string_view>

namespace muster {

// Results to stdout, everything else to stderr. A closed pipe or a full disk behind them never ends a run: what cannot
// be written is dropped, and stdout's failure is remembered for the exit code. Thread-safe.
void PutOut(std::string_view text);
void PutErr(std::string_view text);

// What became of all that was written to stdout.
enum class OutState {
  kWhole,
  kReaderGone,  // the reader of the pipe has closed it (EPIPE): `head` has what it wanted
  kLost,        // anything else: a full disk, a closed descriptor
};
// Flushes stdout.
OutState FlushOut();

// The same as PutOut for what writes to a stream; its state is bad once something was lost. One thread at a time.
std::ostream& OutStream();

// Columns of the terminal that stdout is, kept within the bounds; `otherwise` when it is none.
size_t OutWidth(size_t least, size_t most, size_t otherwise);

template <typename... Args>
void Out(fmt::format_string<Args...> format, Args&&... args) {
  PutOut(fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void Err(fmt::format_string<Args...> format, Args&&... args) {
  PutErr(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace muster
