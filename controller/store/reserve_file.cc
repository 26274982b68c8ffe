#include "controller/store/reserve_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/base/status.h"

namespace muster {

absl::StatusOr<ReserveFile> ReserveFile::Create(const std::string& path, uint64_t bytes) {
  ReserveFile reserve(path);
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  int err = fd < 0 ? errno : posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  if (fd >= 0) close(fd);
  if (err == 0) return reserve;
  ErrorInfo info = GetErrorInfo(ErrnoError(err, "cannot set space aside for the end of the run", path));
  const bool full = err == ENOSPC || err == EDQUOT;
  info.code = full ? "STORE_FULL" : "STORE_FAILED";
  return MakeError(full ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal, info);
}

ReserveFile::ReserveFile(ReserveFile&& other) noexcept : path_(std::exchange(other.path_, "")) {}

void ReserveFile::Release() {
  if (!path_.empty()) unlink(path_.c_str());
  path_.clear();
}

}  // namespace muster
