#include "agent/guard/block_guard.h"

#include <fcntl.h>
#include <linux/blkpg.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <cerrno>
#include <climits>
#include <cstdlib>

#include "agent/guard/content_check.h"
#include "agent/guard/signatures.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/units.h"

namespace muster {
namespace {

absl::Status Refuse(const char* code, const std::string& place, std::string message, std::string next,
                    absl::StatusCode kind = absl::StatusCode::kFailedPrecondition) {
  return MakeError(kind, {.code = code, .place = place, .message = std::move(message), .next = std::move(next)});
}

std::string RealPath(const std::string& path) {
  char resolved[PATH_MAX];
  return realpath(path.c_str(), resolved) != nullptr ? std::string(resolved) : std::string();
}

// An allowed path means the device it leads to, whatever its name: compared by real path and by device number.
bool Allowed(const std::vector<std::string>& allow, const std::string& asked, const std::string& real,
             const struct stat* st) {
  for (const std::string& entry : allow) {
    if (entry.empty() || entry[0] != '/') continue;
    if (real.empty()) {
      if (entry == asked) return true;
      continue;
    }
    if (RealPath(entry) == real) return true;
    struct stat other {};
    if (st != nullptr && S_ISBLK(st->st_mode) && stat(entry.c_str(), &other) == 0 && S_ISBLK(other.st_mode) &&
        other.st_rdev == st->st_rdev) {
      return true;
    }
  }
  return false;
}

absl::Status CheckWritable(const BlockGuardRequest& request, const BlockFindings& found) {
  if (found.Usable() < std::max<uint64_t>(request.needed, 1)) {
    return Refuse("TARGET_TOO_SMALL", found.place,
                  "the working set needs " + std::to_string(request.needed) + " bytes, but the device offers " +
                      std::to_string(found.Usable()) + " (" + std::to_string(found.size) + " less 1 MiB at each end)",
                  "Lower `size` or name a larger device.");
  }
  if (found.read_only) {
    return Refuse("TARGET_READ_ONLY", found.place, "the device is read-only",
                  "Make it writable with `blockdev --setrw`, or run read-only steps.");
  }
  return CheckNotInUse(found.family, found.place);
}

absl::StatusOr<Fd> OpenExclusive(const BlockGuardRequest& request, int mode, BlockFindings& found) {
  // O_DIRECT asks the medium, not what another host's writes have left stale in the page cache.
  absl::StatusOr<Fd> fd = OpenBlockDevice(request, mode | O_EXCL | O_DIRECT, found);
  if (!fd.ok() && GetErrorInfo(fd.status()).code == "SYS_EINVAL") fd = OpenBlockDevice(request, mode | O_EXCL, found);
  if (!fd.ok() && GetErrorInfo(fd.status()).code == "SYS_EBUSY") {
    return Refuse("TARGET_HELD", found.place, "the device or a part of it is in use (exclusive open: EBUSY)",
                  "Look with `lsblk` and `fuser -v` for what uses it: a mount, a volume, another muster run.");
  }
  return fd;
}

// Partitions the kernel still knows would point into the middle of the working set.
absl::Status ForgetPartitions(int fd, const BlockFindings& found) {
  for (size_t i = 1; i < found.family.members.size() && found.family.partition == 0; ++i) {
    const std::string& name = found.family.members[i].first;
    blkpg_partition part{};
    part.pno = static_cast<int>(strtol(ReadLine("/sys/class/block/" + name + "/partition").c_str(), nullptr, 10));
    blkpg_ioctl_arg arg{.op = BLKPG_DEL_PARTITION, .flags = 0, .datalen = sizeof part, .data = &part};
    if (part.pno > 0 && ioctl(fd, BLKPG, &arg) != 0 && errno != ENXIO) {
      return Refuse("TARGET_HELD", found.place,
                    "partition " + name + " cannot be removed from the kernel's view: it is in use",
                    "Look with `lsblk` and `fuser -v /dev/" + name + "` for what uses it.");
    }
  }
  return absl::OkStatus();
}

absl::Status WipeOld(int fd, const BlockFindings& found) {
  MUSTER_RETURN_IF_ERROR(ForgetPartitions(fd, found));
  MUSTER_RETURN_IF_ERROR(ZeroReserved(fd, found.size, found.place));
  const std::string self = "/proc/self/fd/" + std::to_string(fd);
  Fd plain(open(self.c_str(), O_RDWR | O_CLOEXEC));
  if (!plain) return ErrnoError(errno, "cannot open for wiping", found.place, "Check the device's permissions.");
  return WipeSignatures(plain.get(), found.place);
}

}  // namespace

absl::StatusOr<Fd> OpenBlockDevice(const BlockGuardRequest& request, int flags, BlockFindings& found) {
  const std::string& device = request.target.device;
  found.place = device;
  if (device.empty() || device[0] != '/') {
    return Refuse("TARGET_NOT_FOUND", device, "a device is named by its absolute path", "Write /dev/disk/by-id/ID.",
                  absl::StatusCode::kInvalidArgument);
  }
  struct stat st {};
  found.real_path = RealPath(device);
  const bool exists = !found.real_path.empty() && stat(found.real_path.c_str(), &st) == 0;
  if (!Allowed(request.allow_devices, device, found.real_path, exists ? &st : nullptr)) {
    return Refuse("NOT_ALLOWED", found.place, "this agent is not allowed to touch the device",
                  "Start the agent with `--allow-device " + device + "`.", absl::StatusCode::kPermissionDenied);
  }
  if (!exists) {
    return Refuse("TARGET_NOT_FOUND", found.place, "there is no such device",
                  "List the devices of this host with `lsblk` and `ls -l /dev/disk/by-id`.",
                  absl::StatusCode::kNotFound);
  }
  if (found.real_path != device) found.place = device + " (" + found.real_path + ")";
  if (!S_ISBLK(st.st_mode)) {
    return Refuse("TARGET_NOT_BLOCK", found.place, "this is not a block device",
                  "Use a `file` target for files and directories.", absl::StatusCode::kInvalidArgument);
  }
  Fd fd(open(found.real_path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return ErrnoError(errno, "cannot open the device", found.place, "Run the agent as a user that may open it.");
  struct stat now {};
  if (fstat(fd.get(), &now) != 0 || !S_ISBLK(now.st_mode) || now.st_rdev != st.st_rdev) {
    return Refuse("TARGET_CHANGED", found.place, "another device took its place while it was opened", "Start again.");
  }
  found.rdev = now.st_rdev;
  found.family = FindFamily(found.rdev);
  found.disk_sequence = DiskSequence(found.family);
  found.identities = Identities(found.family);
  int sector = 0;
  int read_only = 0;
  if (ioctl(fd.get(), BLKSSZGET, &sector) != 0 || ioctl(fd.get(), BLKGETSIZE64, &found.size) != 0 ||
      ioctl(fd.get(), BLKROGET, &read_only) != 0 || sector <= 0) {
    return ErrnoError(errno, "cannot ask the device for its size", found.place, "Check that the medium is present.");
  }
  found.logical_block = static_cast<uint32_t>(sector);
  found.read_only = read_only != 0;
  return fd;
}

absl::Status CheckBlockDevice(const BlockGuardRequest& request, BlockFindings& found) {
  {
    // Plain first: the reasons a person can act on are found without claiming anything.
    const absl::StatusOr<Fd> plain = OpenBlockDevice(request, O_RDONLY, found);
    if (!plain.ok()) return plain.status();
  }
  MUSTER_RETURN_IF_ERROR(CheckWritable(request, found));
  MUSTER_ASSIGN_OR_RETURN(const Fd fd, OpenExclusive(request, O_RDONLY, found));
  return CheckContent(request.target.overwrite, fd.get(), found);
}

absl::StatusOr<ClaimedDevice> ClaimBlockDevice(const BlockGuardRequest& request, const BlockFindings& seen) {
  BlockFindings now;
  MUSTER_ASSIGN_OR_RETURN(Fd fd, OpenExclusive(request, O_RDWR, now));
  if (now.rdev != seen.rdev || now.size != seen.size || now.disk_sequence != seen.disk_sequence) {
    return Refuse("TARGET_CHANGED", now.place, "another device took its place since it was checked", "Start again.");
  }
  MUSTER_RETURN_IF_ERROR(CheckWritable(request, now));
  MUSTER_RETURN_IF_ERROR(CheckContent(request.target.overwrite, fd.get(), now));

  Label label;
  if (now.ends.content == Content::kOurs) {
    label = *now.ends.label;
  } else {
    label.uuid = NewUuid();
    label.created_micros = WallMicros();
  }
  label.generation += 1;
  label.device_size = now.size;
  label.created_by = request.created_by;
  if (now.overwrites) MUSTER_RETURN_IF_ERROR(WipeOld(fd.get(), now));
  MUSTER_RETURN_IF_ERROR(WriteLabel(fd.get(), label, now.logical_block, now.place));
  return ClaimedDevice(std::move(fd), std::move(label), now.content, now.overwrites);
}

}  // namespace muster
