#include "agent/session/driver_watch.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "common/base/thread.h"

namespace muster::agent {
namespace {

sigset_t ExitSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

// Data means nothing; the end of it does.
bool PipeClosed(int fd) {
  char buffer[256];
  const ssize_t got = read(fd, buffer, sizeof(buffer));
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

}  // namespace

void ExitWatch::BlockSignals() {
  const sigset_t set = ExitSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

ExitWatch::ExitWatch(int pipe_fd, std::function<void(const std::string& why)> on_exit)
    : pipe_fd_(pipe_fd), on_exit_(std::move(on_exit)) {
  const sigset_t set = ExitSignals();
  signal_fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  stop_fd_ = eventfd(0, EFD_CLOEXEC);
  if (pipe_fd_ >= 0) {
    fcntl(pipe_fd_, F_SETFD, FD_CLOEXEC);
    fcntl(pipe_fd_, F_SETFL, fcntl(pipe_fd_, F_GETFL) | O_NONBLOCK);
  }
  thread_ = std::thread([this] {
    SetThreadName("exit-watch");
    Loop();
  });
}

ExitWatch::~ExitWatch() {
  const uint64_t one = 1;
  if (write(stop_fd_, &one, sizeof(one)) == sizeof(one)) thread_.join();
  close(signal_fd_);
  close(stop_fd_);
}

void ExitWatch::Loop() {
  bool asked = false;
  while (true) {
    pollfd fds[] = {{stop_fd_, POLLIN, 0}, {signal_fd_, POLLIN, 0}, {pipe_fd_, POLLIN, 0}};
    if (poll(fds, pipe_fd_ >= 0 ? 3 : 2, -1) < 0 && errno != EINTR) return;
    if (fds[0].revents != 0) return;
    signalfd_siginfo info;
    if (fds[1].revents != 0 && read(signal_fd_, &info, sizeof(info)) == sizeof(info)) {
      asked = true;
      on_exit_(std::string("signal ") + strsignal(static_cast<int>(info.ssi_signo)));
    }
    if (pipe_fd_ >= 0 && fds[2].revents != 0 && PipeClosed(pipe_fd_)) {
      pipe_fd_ = -1;
      if (!asked) on_exit_("the process that started this agent has ended");
    }
  }
}

}  // namespace muster::agent
