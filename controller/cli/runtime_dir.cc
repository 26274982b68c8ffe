#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "common/base/status.h"
#include "controller/cli/local_agents.h"

namespace muster {
namespace {

constexpr char kPrefix[] = "muster-";
constexpr size_t kSuffix = 6;  // of mkdtemp
constexpr char kLockName[] = "/lock";
constexpr int kMostStale = 64;

int LockIn(const std::string& dir, int flags) {
  const int fd = open((dir + kLockName).c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

// Ours by name, owner and mode, with a lock file that nobody holds. One without a lock file is left alone: it may be
// half made.
void RemoveStale(const std::string& base) {
  std::error_code error;
  int seen = 0;
  for (std::filesystem::directory_iterator it(base, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.size() != sizeof(kPrefix) - 1 + kSuffix || name.rfind(kPrefix, 0) != 0) continue;
    const std::string path = it->path().string();
    struct stat st {};
    if (lstat(path.c_str(), &st) != 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) != 0) {
      continue;
    }
    const int lock = LockIn(path, O_RDWR);
    if (lock < 0) continue;
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
    close(lock);
    if (++seen == kMostStale) return;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<RuntimeDir>> RuntimeDir::Create() {
  // A pathname socket has 107 bytes: long TMPDIRs do not fit, so /tmp is the last resort.
  const char* const bases[] = {getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp"};
  for (const char* base : bases) {
    if (base == nullptr || base[0] != '/' || strlen(base) > 60) continue;
    RemoveStale(base);
    std::string path = std::string(base) + "/" + kPrefix + std::string(kSuffix, 'X');
    if (mkdtemp(path.data()) == nullptr) continue;
    const int lock = LockIn(path, O_RDWR | O_CREAT | O_EXCL);
    if (lock >= 0) return std::unique_ptr<RuntimeDir>(new RuntimeDir(path, lock));
    rmdir(path.c_str());
  }
  return ErrnoError(errno, "make a directory for the control socket", "/tmp", "Set TMPDIR to a writable directory.");
}

RuntimeDir::~RuntimeDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  close(lock_);
}

}  // namespace muster
