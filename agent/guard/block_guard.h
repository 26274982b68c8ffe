#pragma once
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/guard/device_ends.h"
#include "agent/guard/device_info.h"
#include "agent/guard/fd.h"
#include "agent/guard/label.h"
#include "common/plan/plan.h"

namespace muster {

struct BlockGuardRequest {
  BlockTarget target;
  std::vector<std::string> allow_devices;  // absolute paths
  uint64_t needed = 0;                     // bytes of the working set; 0: any size will do
  std::string created_by;                  // goes into the label
};

// What was found on the way, as far as the checks came.
struct BlockFindings {
  std::string place;  // the device as named, with the real path when that differs
  std::string real_path;
  dev_t rdev = 0;
  DeviceFamily family;
  uint64_t disk_sequence = 0;
  uint32_t logical_block = 512;
  uint64_t size = 0;
  bool read_only = false;
  std::vector<std::pair<std::string, std::string>> identities;
  DeviceEnds ends;
  std::string content;      // for people: "blank", "muster label, generation 3", "ext4 file system \"data\""
  bool overwrites = false;  // permitted only by the campaign's `overwrite`

  uint64_t Usable() const { return size > 2 * kReservedBytes ? size - 2 * kReservedBytes : 0; }
};

// Opens the device plainly and reads who and what it is: allow list, block device, sizes, identities. Typed errors
// NOT_ALLOWED, TARGET_NOT_FOUND, TARGET_NOT_BLOCK, SYS_*. Never writes. `flags` are open(2) flags (O_RDONLY ...).
absl::StatusOr<Fd> OpenBlockDevice(const BlockGuardRequest& request, int flags, BlockFindings& found);

// Every check of the write guard, in order: allow list, block device, size, read-only, mounts, swap, holders,
// exclusive open, content and overwrite permission. OK: a writing step may claim the device. Reads only; holds the
// device exclusively for the time it reads. Typed errors as above and TARGET_TOO_SMALL, TARGET_READ_ONLY,
// TARGET_MOUNTED, TARGET_SWAP, TARGET_HELD, TARGET_HAS_DATA, TARGET_WRONG_ID, TARGET_WRONG_SIZE.
absl::Status CheckBlockDevice(const BlockGuardRequest& request, BlockFindings& found);

// A device that is held exclusively and carries a label of this run. Dropped on destruction; the label stays.
class ClaimedDevice {
 public:
  ClaimedDevice(Fd exclusive, Label label, std::string content, bool overwrote)
      : exclusive_(std::move(exclusive)),
        label_(std::move(label)),
        content_(std::move(content)),
        overwrote_(overwrote) {}
  const Label& label() const { return label_; }
  const std::string& content() const { return content_; }  // what it held before, for people
  bool overwrote() const { return overwrote_; }            // data, as the campaign permits
  void Release() { exclusive_.Close(); }

 private:
  Fd exclusive_;
  Label label_;
  std::string content_;
  bool overwrote_;
};

// Repeats every check with the exclusive descriptor held, and only then writes: old signatures wiped when the
// campaign permits it, then the label with the next generation. `seen` is the device as it was opened before: another
// one or disk sequence under the same name is TARGET_CHANGED; content that appeared since is refused like any other.
absl::StatusOr<ClaimedDevice> ClaimBlockDevice(const BlockGuardRequest& request, const BlockFindings& seen);

// Both parts of `overwrite` name this device; TARGET_WRONG_ID or TARGET_WRONG_SIZE otherwise.
absl::Status MatchOverwrite(const Overwrite& overwrite, const BlockFindings& found);

}  // namespace muster
