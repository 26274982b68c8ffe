#include "controller/cli/output.h"

#include <atomic>
#include <cstdio>

namespace muster {
namespace {

std::atomic<bool> g_lost{false};

}  // namespace

void PutOut(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) g_lost = true;
}

void PutErr(std::string_view text) {
  // Nobody is left to be told that this failed.
  static_cast<void>(!std::fwrite(text.data(), 1, text.size(), stderr));
}

bool FlushOut() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) g_lost = true;
  return !g_lost;
}

}  // namespace muster
