#include "controller/store/lock_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/base/status.h"

namespace muster {
namespace {

constexpr int kTries = 16;  // each is lost only to a holder that ends in that very moment

absl::Status Failed(int err, const std::string& path) {
  ErrorInfo info = GetErrorInfo(ErrnoError(err, "cannot lock the run", path));
  info.code = err == ENOSPC ? "STORE_FULL" : "STORE_FAILED";
  return MakeError(err == ENOSPC ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal, info);
}

std::string Holder(int fd) {
  char text[32] = {};
  const ssize_t n = pread(fd, text, sizeof text - 1, 0);
  std::string pid(text, n > 0 ? n : 0);
  while (!pid.empty() && pid.back() == '\n') pid.pop_back();
  return pid;
}

// The file may have been removed by its last holder between open and lock.
bool StillThere(int fd, const std::string& path) {
  struct stat a {};
  struct stat b {};
  return fstat(fd, &a) == 0 && stat(path.c_str(), &b) == 0 && a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

}  // namespace

absl::StatusOr<LockFile> LockFile::Acquire(const std::string& path) {
  for (int i = 0; i < kTries; ++i) {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return Failed(errno, path);
    LockFile lock(path, fd);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      const int err = errno;
      const std::string holder = Holder(fd);
      close(std::exchange(lock.fd_, -1));
      if (err != EWOULDBLOCK) return Failed(err, path);
      if (holder.empty() && i + 1 < kTries) {
        sched_yield();  // somebody is only looking (Held), or has not written its id yet
        continue;
      }
      return MakeError(absl::StatusCode::kFailedPrecondition,
                       {.code = "STORE_LOCKED",
                        .place = path,
                        .message = fmt::format("process {} is writing this run", holder.empty() ? "unknown" : holder),
                        .next = "Wait for it to end, or stop it."});
    }
    if (!StillThere(fd, path)) {
      close(std::exchange(lock.fd_, -1));
      continue;
    }
    const std::string pid = fmt::format("{}\n", getpid());
    if (ftruncate(fd, 0) != 0 || pwrite(fd, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
      return Failed(errno, path);
    }
    return lock;
  }
  return Failed(EAGAIN, path);
}

bool LockFile::Held(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return false;
  const bool held = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(fd);
  return held;
}

LockFile::LockFile(LockFile&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

LockFile::~LockFile() {
  if (fd_ < 0) return;
  unlink(path_.c_str());
  close(fd_);
}

}  // namespace muster
