#pragma once
#include <string>

#include "absl/status/statusor.h"

namespace muster {

// An flock(2) on a file that names its holder; ends with the process, however it ends. Movable.
class LockFile {
 public:
  // STORE_LOCKED names path and process id of the holder; STORE_FULL, STORE_FAILED. Does not wait.
  static absl::StatusOr<LockFile> Acquire(const std::string& path);
  // Whether somebody holds it now.
  static bool Held(const std::string& path);
  LockFile(LockFile&& other) noexcept;
  LockFile& operator=(LockFile&&) = delete;
  // Removes the file: a lock nobody holds says nothing.
  ~LockFile();

 private:
  LockFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;
  int fd_;
};

}  // namespace muster
