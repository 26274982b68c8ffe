#pragma once
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace muster {

// The offset and length alignment O_DIRECT needs on this descriptor (opened with O_DIRECT): statx STATX_DIOALIGN
// where the file system tells it, else by reading with 512, 4096 and 65536 bytes. DIRECT_UNSUPPORTED if none works.
absl::StatusOr<uint32_t> DirectAlignment(int fd, const std::string& place);

// Whether O_DIRECT keeps data out of the page cache, asked by reading one block at `offset` (a multiple of the page
// size, the block must exist) and mincore(). "effective", "not effective: <why>" or
// "unknown: <why>". Reads only.
std::string ProbeDirect(int fd, uint32_t alignment, uint64_t offset);

// Name of the file system the descriptor is on ("ext4", "tmpfs"; unknown ones by their magic number).
std::string FileSystemName(int fd);

}  // namespace muster
