#include "controller/cli/output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <streambuf>

namespace muster {
namespace {

std::atomic<OutState> g_state{OutState::kWhole};

// The worst that happened stays.
void Remember(int error) {
  if (error != EPIPE) {
    g_state = OutState::kLost;
    return;
  }
  OutState whole = OutState::kWhole;
  g_state.compare_exchange_strong(whole, OutState::kReaderGone);
}

bool Write(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size()) return true;
  Remember(errno);
  return false;
}

class OutBuffer : public std::streambuf {
 protected:
  std::streamsize xsputn(const char* data, std::streamsize size) override {
    return Write({data, static_cast<size_t>(size)}) ? size : 0;
  }
  int_type overflow(int_type c) override {
    if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
    const char byte = traits_type::to_char_type(c);
    return Write({&byte, 1}) ? c : traits_type::eof();
  }
  int sync() override { return FlushOut() == OutState::kWhole ? 0 : -1; }
};

}  // namespace

void PutOut(std::string_view text) {
  static_cast<void>(Write(text));
}

void PutErr(std::string_view text) {
  // Nobody is left to be told that this failed.
  static_cast<void>(!std::fwrite(text.data(), 1, text.size(), stderr));
}

OutState FlushOut() {
  errno = 0;
  if (std::fflush(stdout) != 0) {
    Remember(errno);
  } else if (std::ferror(stdout) != 0 && g_state == OutState::kWhole) {
    Remember(0);  // whoever wrote past this module left no reason
  }
  return g_state;
}

std::ostream& OutStream() {
  static OutBuffer buffer;
  static std::ostream stream(&buffer);
  return stream;
}

size_t OutWidth(size_t least, size_t most, size_t otherwise) {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return otherwise;
  return std::clamp<size_t>(size.ws_col, least, most);
}

}  // namespace muster
