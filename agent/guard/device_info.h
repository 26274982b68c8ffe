#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace muster {

// Where the kernel's files are; another place only in tests.
struct HostPaths {
  std::string sys = "/sys";
  std::string proc = "/proc";
  std::string dev = "/dev";
};

// A block device and those that share its bytes: the partitions of a whole disk, the whole disk of a partition.
struct DeviceFamily {
  std::string name;                                    // kernel name, "sdb1"
  std::string whole;                                   // name of the whole disk; equal to `name` for one
  uint32_t partition = 0;                              // number; 0 for a whole disk
  std::vector<std::pair<std::string, dev_t>> members;  // itself first, then whole disk or partitions
};

// What the kernel says about the device `rdev`. Reads only; a file that is absent is an empty answer.
DeviceFamily FindFamily(dev_t rdev, const HostPaths& host = {});

// (kind, value) pairs by which a campaign may name the device: "wwid", "serial", "dm uuid", "backing file" and
// "by-id" (name and full path of links in /dev/disk/by-id that lead to it). A partition carries the disk's identity
// with "-part<N>" appended, so that naming the disk never frees a partition or the other way round.
std::vector<std::pair<std::string, std::string>> Identities(const DeviceFamily& family, const HostPaths& host = {});

// Counts up each time a disk is attached anew (kernel 5.15); 0 when unknown.
uint64_t DiskSequence(const DeviceFamily& family, const HostPaths& host = {});

// Not OK when any member is in use; TARGET_MOUNTED, TARGET_SWAP or TARGET_HELD, naming member and user.
// A loop device whose file is, in part, behind another one is held: what is done to the file there is not seen here.
// Mounts are found by device number and, for file systems with numbers of their own (btrfs), by source. Other mount
// namespaces are not seen here: the exclusive open that follows sees them.
absl::Status CheckNotInUse(const DeviceFamily& family, const std::string& place, const HostPaths& host = {});

// First line of a small file, without the line end; empty if it cannot be read.
std::string ReadLine(const std::string& path);
// "\040" and its like in /proc/mounts and /proc/swaps.
std::string UnescapeOctal(const std::string& text);
// Blanks at the ends removed and runs of blanks made one: identities come padded from SCSI inquiries.
std::string CollapseBlanks(const std::string& text);

}  // namespace muster
