#pragma once
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster {

// What libblkid recognises on an open device (descriptor without O_DIRECT), as one phrase for people:
// `ext4 file system "data"`, `GPT partition table`, several joined by " and ". Empty: nothing, which proves nothing.
// Reads only. `sector`: logical block size of the device that an image (a regular file) is of; 0: fd is the device.
absl::StatusOr<std::string> FindSignatures(int fd, const std::string& place, uint32_t sector = 0);

// Erases every signature libblkid recognises (superblocks and partition tables) and flushes. `fd` is writable, without
// O_DIRECT. Typed error WIPE_INCOMPLETE if something is still recognised afterwards.
absl::Status WipeSignatures(int fd, const std::string& place);

}  // namespace muster
