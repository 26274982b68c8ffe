#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"

namespace muster {

// A stretch of time that may be running.
class IscsiStopwatch {
 public:
  void Start(Nanos now) {
    if (since_ < 0) since_ = now;
  }
  void Stop(Nanos now) {
    if (since_ >= 0 && now > since_) total_ += now - since_;
    since_ = -1;
  }
  bool running() const { return since_ >= 0; }
  Nanos TotalAt(Nanos now) const { return total_ + (since_ >= 0 && now > since_ ? now - since_ : 0); }

 private:
  Nanos total_ = 0;
  Nanos since_ = -1;
};

// What happened on a connection since Open. No allocation while counting.
struct IscsiCounters {
  uint64_t commands = 0;
  uint64_t connections_lost = 0;
  uint64_t reconnects = 0;
  uint64_t failed_attempts = 0;
  uint64_t timed_out = 0;
  uint64_t aborted = 0;
  uint64_t busy_retries = 0;
  uint64_t attention_retries = 0;
  uint64_t bad_digests = 0;
  uint32_t smallest_window = UINT32_MAX;
  uint32_t largest_window = 0;
  IscsiStopwatch down;
  IscsiStopwatch behind_window;
  IscsiStopwatch behind_socket;

  // Counts an answer that was not GOOD, or a transport failure, by its native code (sense.h), retried ones included.
  void Event(int32_t native_code);
  void Windows(uint32_t smallest, uint32_t largest);

  // Zero counts are left out, but for those of time.
  std::vector<std::pair<std::string, uint64_t>> List(Nanos now) const;

 private:
  struct Named {
    int32_t code = 0;
    uint64_t count = 0;
  };
  std::array<Named, 48> events_{};  // different codes; further ones go together
  uint64_t other_events_ = 0;
};

}  // namespace muster
