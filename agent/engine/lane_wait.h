#pragma once
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "agent/backend/backend.h"

namespace muster {

// What a worker thread waits in: a sole backend's own wait, or epoll over the descriptors of all of them. epoll_pwait2
// is used for its nanoseconds; a kernel without it (before 5.11) gets whole milliseconds, rounded up, and is told so by
// precise(). All on the worker's thread; the backends outlive it.
class LaneWait {
 public:
  LaneWait() = default;
  ~LaneWait();
  LaneWait(const LaneWait&) = delete;
  LaneWait& operator=(const LaneWait&) = delete;

  // Once, with all opened backends. WAIT_SETUP when the kernel refuses a descriptor.
  absl::Status Add(std::span<Backend* const> backends);
  // Until one may have something to reap, or `deadline` (CLOCK_MONOTONIC); early returns are allowed.
  void WaitUntil(Nanos deadline);
  bool precise() const { return precise_; }

 private:
  std::vector<Backend*> backends_;
  int epoll_ = -1;
  bool precise_ = true;
};

}  // namespace muster
