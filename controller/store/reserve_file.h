#pragma once
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace muster {

// Blocks of the disk held by a file beside the run file, so that on a full disk there is room left to write down how
// the run ended. Movable; removed at the end.
class ReserveFile {
 public:
  // STORE_FULL when they are not there; STORE_FAILED. Blocks on the disk.
  static absl::StatusOr<ReserveFile> Create(const std::string& path, uint64_t bytes);
  ReserveFile(ReserveFile&& other) noexcept;
  ReserveFile& operator=(ReserveFile&&) = delete;
  ~ReserveFile() { Release(); }
  // Gives the blocks back.
  void Release();

 private:
  explicit ReserveFile(std::string path) : path_(std::move(path)) {}
  std::string path_;  // empty: released
};

}  // namespace muster
