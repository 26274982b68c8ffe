#pragma once
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/top/layout.h"

namespace muster {

// The terminal on standard input and output, taken over in full until destruction, which leaves it as it was. One at a
// time; one thread. What other code writes to a terminal on standard error meanwhile is dropped.
class Screen {
 public:
  // NOT_A_TERMINAL: input or output is none.
  static absl::Status Check();
  // As Check, and TERMINAL_UNSUITABLE: $TERM is unknown, or cannot place the cursor.
  static absl::StatusOr<std::unique_ptr<Screen>> Open();
  virtual ~Screen() = default;
  // As it is now: a resized terminal has another size at the next call. utf8: it can show block characters.
  virtual TopSize Size() = 0;
  // Sends what has changed. Blocks while the terminal takes nothing.
  virtual void Show(const TopFrame& frame) = 0;
  // Keys that were pressed; waits for the first one at most so long, or until a signal comes. TERMINAL_GONE: it was
  // closed.
  virtual absl::StatusOr<std::vector<TopKey>> Keys(Nanos timeout) = 0;
};

}  // namespace muster
