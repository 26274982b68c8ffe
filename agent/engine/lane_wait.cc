#include "agent/engine/lane_wait.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/base/status.h"
#include "fmt/format.h"

namespace muster {
namespace {

constexpr Nanos kLongestWait = kSecond;  // the caller loops anyway
constexpr int kEvents = 64;

}  // namespace

LaneWait::~LaneWait() {
  if (epoll_ >= 0) close(epoll_);
}

absl::Status LaneWait::Add(std::span<Backend* const> backends) {
  backends_.assign(backends.begin(), backends.end());
  if (backends_.size() <= 1) return absl::OkStatus();
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  int err = epoll_ < 0 ? errno : 0;
  for (size_t i = 0; i < backends_.size() && err == 0; ++i) {
    const int fd = backends_[i]->WaitFd();
    if (fd < 0) continue;  // driven by time alone
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = i;
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) err = errno;
  }
  if (err == 0) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kUnavailable,
      {"WAIT_SETUP", "epoll", fmt::format("cannot wait for {} connections: {}", backends_.size(), strerror(err)),
       "Check the limit of open files (ulimit -n) of the agent."});
}

void LaneWait::WaitUntil(Nanos deadline) {
  if (backends_.size() == 1) return backends_.front()->WaitUntil(deadline);
  const Nanos wait = std::min(deadline - SteadyClock::Get().Now(), kLongestWait);
  if (wait <= 0) return;
  epoll_event events[kEvents];
  if (precise_) {
    const timespec ts{.tv_sec = wait / kSecond, .tv_nsec = wait % kSecond};
    if (epoll_pwait2(epoll_, events, kEvents, &ts, nullptr) >= 0 || errno != ENOSYS) return;
    precise_ = false;
  }
  epoll_wait(epoll_, events, kEvents, static_cast<int>((wait + kMillisecond - 1) / kMillisecond));
}

}  // namespace muster
