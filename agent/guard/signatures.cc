#include "agent/guard/signatures.h"

#include <blkid/blkid.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "common/base/status.h"

namespace muster {
namespace {

// No device carries more; a bound so that a probe that never ends cannot hold the run.
constexpr int kMaxSignatures = 64;

struct FreeProbe {
  void operator()(blkid_probe probe) const { blkid_free_probe(probe); }
};
using Probe = std::unique_ptr<struct blkid_struct_probe, FreeProbe>;

absl::StatusOr<Probe> NewProbe(int fd, uint32_t sector, const std::string& place) {
  Probe probe(blkid_new_probe());
  if (probe == nullptr || blkid_probe_set_device(probe.get(), fd, 0, 0) != 0) {
    return ErrnoError(errno ? errno : EIO, "libblkid cannot read the device", place,
                      "Check that the device can be read, for example with `blkid -p`.");
  }
  // An image has no logical block size of its own; a GPT lies at the second block, whatever its size.
  if (sector != 0) blkid_probe_set_sectorsize(probe.get(), sector);
  blkid_probe_enable_superblocks(probe.get(), 1);
  // BADCSUM: a damaged superblock is still somebody's data.
  blkid_probe_set_superblocks_flags(probe.get(), BLKID_SUBLKS_TYPE | BLKID_SUBLKS_LABEL | BLKID_SUBLKS_USAGE |
                                                     BLKID_SUBLKS_MAGIC | BLKID_SUBLKS_BADCSUM);
  blkid_probe_enable_partitions(probe.get(), 1);
  blkid_probe_set_partitions_flags(probe.get(), BLKID_PARTS_MAGIC | BLKID_PARTS_FORCE_GPT);
  return probe;
}

std::string Value(blkid_probe probe, const char* name) {
  const char* value = nullptr;
  size_t length = 0;
  if (blkid_probe_lookup_value(probe, name, &value, &length) != 0 || value == nullptr) return {};
  return std::string(value);
}

std::string Phrase(blkid_probe probe) {
  const std::string table = Value(probe, "PTTYPE");
  if (!table.empty())
    return (table == "dos" ? std::string("MBR") : table == "gpt" ? "GPT" : table) + " partition table";
  std::string type = Value(probe, "TYPE");
  if (type.empty()) return {};
  const std::string usage = Value(probe, "USAGE");
  if (usage == "filesystem") {
    type += " file system";
  } else if (type == "swap") {
    type += " area";
  } else if (usage == "raid") {
    type += " (RAID or volume manager member)";
  } else if (usage == "crypto") {
    type += " (encrypted volume)";
  }
  const std::string label = Value(probe, "LABEL");
  if (!label.empty()) type += " \"" + label + "\"";
  return type;
}

}  // namespace

absl::StatusOr<std::string> FindSignatures(int fd, const std::string& place, uint32_t sector) {
  MUSTER_ASSIGN_OR_RETURN(Probe probe, NewProbe(fd, sector, place));
  std::string found;
  for (int i = 0; i < kMaxSignatures; ++i) {
    const int rc = blkid_do_probe(probe.get());
    if (rc == 1) break;
    if (rc != 0) {
      return ErrnoError(errno ? errno : EIO, "libblkid failed while probing", place,
                        "Check that the device can be read, for example with `blkid -p`.");
    }
    const std::string phrase = Phrase(probe.get());
    if (phrase.empty() || found.find(phrase) != std::string::npos) continue;
    if (!found.empty()) found += " and ";
    found += phrase;
  }
  return found;
}

absl::Status WipeSignatures(int fd, const std::string& place) {
  {
    MUSTER_ASSIGN_OR_RETURN(Probe probe, NewProbe(fd, 0, place));
    for (int i = 0; i < kMaxSignatures && blkid_do_probe(probe.get()) == 0; ++i) {
      if (blkid_do_wipe(probe.get(), 0) != 0) {
        return ErrnoError(errno ? errno : EIO, "cannot erase the old signature", place,
                          "Erase it with `wipefs --all` and start again.");
      }
    }
  }
  if (fsync(fd) != 0) return ErrnoError(errno, "cannot flush the device", place, "Look for I/O errors in `dmesg`.");
  MUSTER_ASSIGN_OR_RETURN(const std::string left, FindSignatures(fd, place));
  if (left.empty()) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInternal, {.code = "WIPE_INCOMPLETE",
                                                 .place = place,
                                                 .message = "still recognised after wiping: " + left,
                                                 .next = "Erase it with `wipefs --all` and start again."});
}

}  // namespace muster
