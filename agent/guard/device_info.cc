#include "agent/guard/device_info.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>

#include "common/base/status.h"

namespace muster {
namespace {

std::vector<std::string> ListDir(const std::string& path) {
  std::vector<std::string> names;
  std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(path.c_str()), closedir);
  if (dir == nullptr) return names;
  while (const dirent* entry = readdir(dir.get())) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string RealPath(const std::string& path) {
  char resolved[PATH_MAX];
  return realpath(path.c_str(), resolved) != nullptr ? std::string(resolved) : std::string();
}

bool ParseDevice(const std::string& text, dev_t& device) {
  unsigned major_number = 0;
  unsigned minor_number = 0;
  if (sscanf(text.c_str(), "%u:%u", &major_number, &minor_number) != 2) return false;  // NOLINT(cert-err34-c)
  device = makedev(major_number, minor_number);
  return true;
}

std::string LastName(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

std::string ReadSmallFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text(4096, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  return text;
}

const std::string* MemberOf(const DeviceFamily& family, dev_t device) {
  for (const auto& [name, number] : family.members) {
    if (number == device) return &name;
  }
  return nullptr;
}

// The member that `path` (a device node, as /proc tells it) is.
const std::string* MemberAt(const DeviceFamily& family, const std::string& path) {
  struct stat st {};
  if (path.empty() || path[0] != '/' || stat(path.c_str(), &st) != 0 || !S_ISBLK(st.st_mode)) return nullptr;
  return MemberOf(family, st.st_rdev);
}

absl::Status InUse(const char* code, const std::string& place, std::string message, std::string next) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   {.code = code, .place = place, .message = std::move(message), .next = std::move(next)});
}

absl::Status CheckMounts(const DeviceFamily& family, const std::string& place, const HostPaths& host) {
  std::ifstream in(host.proc + "/self/mountinfo");
  if (!in) {
    return InUse("TARGET_MOUNTED", place,
                 "cannot tell whether it is mounted: " + host.proc + "/self/mountinfo is unreadable",
                 "Mount /proc and start again.");
  }
  std::string line;
  while (std::getline(in, line)) {
    // id parent major:minor root mount-point options [optional fields] - type source options (proc(5))
    std::istringstream fields(line);
    std::string id, parent, number, root, point, word, type, source;
    fields >> id >> parent >> number >> root >> point;
    while (fields >> word && word != "-") {
    }
    fields >> type >> source;
    dev_t device = 0;
    const std::string* member = ParseDevice(number, device) ? MemberOf(family, device) : nullptr;
    if (member == nullptr) member = MemberAt(family, UnescapeOctal(source));
    if (member == nullptr) continue;
    point = UnescapeOctal(point);
    return InUse("TARGET_MOUNTED", place, fmt::format("{} is mounted on {} ({})", *member, point, type),
                 "Unmount it with `umount " + point + "` if its content may be lost, or name another device.");
  }
  return absl::OkStatus();
}

absl::Status CheckSwap(const DeviceFamily& family, const std::string& place, const HostPaths& host) {
  std::ifstream in(host.proc + "/swaps");
  std::string line;
  while (std::getline(in, line)) {
    const std::string path = UnescapeOctal(line.substr(0, line.find_first_of(" \t")));
    if (const std::string* member = MemberAt(family, path)) {
      return InUse("TARGET_SWAP", place, *member + " is in use as swap space (" + path + ")",
                   "Stop it with `swapoff " + path + "`, or name another device.");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckHolders(const DeviceFamily& family, const std::string& place, const HostPaths& host) {
  for (const auto& [name, number] : family.members) {
    const auto holders = ListDir(fmt::format("{}/class/block/{}/holders", host.sys, name));
    if (holders.empty()) continue;
    return InUse("TARGET_HELD", place,
                 fmt::format("{} is part of {}{}", name, holders.front(), holders.size() > 1 ? " and others" : ""),
                 "Take " + holders.front() + " apart (LVM, RAID, multipath, encryption), or name another device.");
  }
  // A loop device on top of a block device neither claims it nor shows as a holder.
  for (const std::string& loop : ListDir(host.sys + "/block")) {
    if (loop.rfind("loop", 0) != 0) continue;
    const std::string backing = ReadLine(fmt::format("{}/block/{}/loop/backing_file", host.sys, loop));
    if (const std::string* member = MemberAt(family, backing)) {
      return InUse("TARGET_HELD", place, *member + " backs /dev/" + loop,
                   "Detach it with `losetup -d /dev/" + loop + "`, or name another device.");
    }
  }
  return absl::OkStatus();
}

// What of a file is behind a loop device.
struct LoopPart {
  std::string file;
  bool known = false;  // the file is where sysfs says: device and inode are its
  dev_t device = 0;
  ino_t inode = 0;
  uint64_t begin = 0, end = 0;
};

LoopPart PartOf(const std::string& loop, const HostPaths& host) {
  LoopPart part;
  const std::string block = host.sys + "/block/" + loop;
  part.file = ReadLine(block + "/loop/backing_file");
  struct stat st {};
  part.known = !part.file.empty() && stat(part.file.c_str(), &st) == 0;
  part.device = st.st_dev;
  part.inode = st.st_ino;
  part.begin = strtoull(ReadLine(block + "/loop/offset").c_str(), nullptr, 10);
  part.end = part.begin + strtoull(ReadLine(block + "/size").c_str(), nullptr, 10) * 512;
  return part;
}

// Two loop devices of one file are two devices to the kernel: neither mount nor exclusive open of one shows at the
// other.
absl::Status CheckSharedFile(const DeviceFamily& family, const std::string& place, const HostPaths& host) {
  if (family.whole.rfind("loop", 0) != 0) return absl::OkStatus();
  const LoopPart ours = PartOf(family.whole, host);
  if (ours.file.empty()) return absl::OkStatus();
  for (const std::string& loop : ListDir(host.sys + "/block")) {
    if (loop.rfind("loop", 0) != 0 || loop == family.whole) continue;
    const LoopPart other = PartOf(loop, host);
    const bool same =
        ours.known && other.known ? ours.device == other.device && ours.inode == other.inode : ours.file == other.file;
    if (other.file.empty() || !same || ours.begin >= other.end || other.begin >= ours.end) continue;
    return InUse("TARGET_HELD", place,
                 fmt::format("its file {} is behind /dev/{} too, whose use is not seen here", ours.file, loop),
                 "Detach it with `losetup -d /dev/" + loop + "`, or name another device.");
  }
  return absl::OkStatus();
}

}  // namespace

std::string ReadLine(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string UnescapeOctal(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '7'; };
    if (text[i] == '\\' && digit(i + 1) && digit(i + 2) && digit(i + 3)) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string CollapseBlanks(const std::string& text) {
  std::string out;
  for (char c : text) {
    const bool blank = c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\0';
    if (!blank) {
      out += c;
    } else if (!out.empty() && out.back() != ' ') {
      out += ' ';
    }
  }
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

DeviceFamily FindFamily(dev_t rdev, const HostPaths& host) {
  DeviceFamily family;
  const std::string number = std::to_string(major(rdev)) + ":" + std::to_string(minor(rdev));
  const std::string path = RealPath(host.sys + "/dev/block/" + number);
  family.name = path.empty() ? number : LastName(path);
  family.members.emplace_back(family.name, rdev);
  family.whole = family.name;
  if (path.empty()) return family;
  dev_t device = 0;
  const std::string part = ReadLine(path + "/partition");
  if (!part.empty()) {
    family.partition = static_cast<uint32_t>(strtoul(part.c_str(), nullptr, 10));
    const std::string disk = path.substr(0, path.rfind('/'));
    family.whole = LastName(disk);
    if (ParseDevice(ReadLine(disk + "/dev"), device)) family.members.emplace_back(family.whole, device);
    return family;
  }
  for (const std::string& child : ListDir(path)) {
    if (ReadLine(fmt::format("{}/{}/partition", path, child)).empty()) continue;
    if (ParseDevice(ReadLine(fmt::format("{}/{}/dev", path, child)), device))
      family.members.emplace_back(child, device);
  }
  return family;
}

std::vector<std::pair<std::string, std::string>> Identities(const DeviceFamily& family, const HostPaths& host) {
  std::vector<std::pair<std::string, std::string>> found;
  const std::string disk = host.sys + "/block/" + family.whole;
  const std::string suffix = family.partition == 0 ? "" : "-part" + std::to_string(family.partition);
  const auto add = [&](const char* kind, const std::string& raw) {
    const std::string value = CollapseBlanks(raw);
    if (!value.empty()) found.emplace_back(kind, value + suffix);
  };
  add("wwid", ReadLine(disk + "/wwid"));
  add("wwid", ReadLine(disk + "/device/wwid"));
  add("serial", ReadLine(disk + "/serial"));
  add("serial", ReadLine(disk + "/device/serial"));
  // SCSI unit serial number page: 4 bytes of header, then text (SPC-5 7.7.18).
  const std::string page = ReadSmallFile(disk + "/device/vpd_pg80");
  if (page.size() > 4) add("serial", page.substr(4));
  add("dm uuid", ReadLine(disk + "/dm/uuid"));
  add("backing file", ReadLine(disk + "/loop/backing_file"));
  const std::string by_id = host.dev + "/disk/by-id";
  for (const std::string& link : ListDir(by_id)) {
    struct stat st {};
    const std::string path = fmt::format("{}/{}", by_id, link);
    if (stat(path.c_str(), &st) != 0 || !S_ISBLK(st.st_mode) || st.st_rdev != family.members.front().second) continue;
    found.emplace_back("by-id", link);
    found.emplace_back("by-id", path);
  }
  return found;
}

uint64_t DiskSequence(const DeviceFamily& family, const HostPaths& host) {
  return strtoull(ReadLine(host.sys + "/block/" + family.whole + "/diskseq").c_str(), nullptr, 10);
}

absl::Status CheckNotInUse(const DeviceFamily& family, const std::string& place, const HostPaths& host) {
  MUSTER_RETURN_IF_ERROR(CheckMounts(family, place, host));
  MUSTER_RETURN_IF_ERROR(CheckSwap(family, place, host));
  MUSTER_RETURN_IF_ERROR(CheckSharedFile(family, place, host));
  return CheckHolders(family, place, host);
}

}  // namespace muster
