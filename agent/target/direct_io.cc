#include "agent/target/direct_io.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "agent/guard/device_ends.h"
#include "common/base/status.h"

namespace muster {
namespace {

// Not in linux/magic.h of Linux 6.1.
constexpr int64_t kZfsMagic = 0x2FC12FC1;
constexpr int64_t kCifsMagic = 0xFF534D42;
constexpr int64_t kSmb2Magic = 0xFE534D42;

int64_t Magic(int fd) {
  struct statfs fs {};
  return fstatfs(fd, &fs) == 0 ? static_cast<int64_t>(static_cast<uint32_t>(fs.f_type)) : 0;
}

absl::Status Unsupported(const std::string& place) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   {.code = "DIRECT_UNSUPPORTED",
                    .place = place,
                    .message = "O_DIRECT does not work here",
                    .next = "Set `direct: false`, or use a directory on another file system."});
}

// A page of the object, mapped but never touched, to ask about its residence.
class MappedPage {
 public:
  MappedPage(int fd, uint64_t offset)
      : size_(static_cast<size_t>(sysconf(_SC_PAGESIZE))),
        at_(mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(offset))) {}
  ~MappedPage() {
    if (at_ != MAP_FAILED) munmap(at_, size_);
  }
  MappedPage(const MappedPage&) = delete;
  MappedPage& operator=(const MappedPage&) = delete;
  // -1: cannot tell.
  int Resident() const {
    unsigned char vector = 0;
    if (at_ == MAP_FAILED || mincore(at_, size_, &vector) != 0) return -1;
    return vector & 1;
  }

 private:
  size_t size_;
  void* at_;
};

}  // namespace

std::string FileSystemName(int fd) {
  static constexpr std::pair<int64_t, const char*> kNames[] = {
      {EXT4_SUPER_MAGIC, "ext4"},  {XFS_SUPER_MAGIC, "xfs"},     {BTRFS_SUPER_MAGIC, "btrfs"},
      {TMPFS_MAGIC, "tmpfs"},      {RAMFS_MAGIC, "ramfs"},       {OVERLAYFS_SUPER_MAGIC, "overlay"},
      {NFS_SUPER_MAGIC, "nfs"},    {FUSE_SUPER_MAGIC, "fuse"},   {F2FS_SUPER_MAGIC, "f2fs"},
      {kZfsMagic, "zfs"},          {kCifsMagic, "cifs"},         {kSmb2Magic, "cifs (SMB 2/3)"},
      {MSDOS_SUPER_MAGIC, "vfat"}, {EXFAT_SUPER_MAGIC, "exfat"}, {V9FS_MAGIC, "9p"},
  };
  const int64_t magic = Magic(fd);
  for (const auto& [number, name] : kNames) {
    if (number == magic) return name;
  }
  return fmt::format("unknown (magic {:#x})", magic);
}

absl::StatusOr<uint32_t> DirectAlignment(int fd, const std::string& place) {
  struct statx st {};
  if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &st) == 0 && (st.stx_mask & STATX_DIOALIGN) != 0) {
    if (st.stx_dio_offset_align == 0) return Unsupported(place);
    return std::max(st.stx_dio_offset_align, st.stx_dio_mem_align <= 4096 ? 1U : st.stx_dio_mem_align);
  }
  AlignedBuffer buffer(64 << 10);
  for (const uint32_t size : {512U, 4096U, 65536U}) {
    // At an offset of the same alignment: some file systems check only what is not at the start.
    if (pread(fd, buffer.data(), size, size) >= 0) return size;
    if (errno != EINVAL)
      return ErrnoError(errno, "cannot read with O_DIRECT", place, "Look for I/O errors in `dmesg`.");
  }
  return Unsupported(place);
}

std::string ProbeDirect(int fd, uint32_t alignment, uint64_t offset) {
  const int64_t magic = Magic(fd);
  struct stat st {};
  const bool device = fstat(fd, &st) == 0 && S_ISBLK(st.st_mode);
  if (!device && (magic == TMPFS_MAGIC || magic == RAMFS_MAGIC)) {
    return "not effective: " + FileSystemName(fd) + " accepts O_DIRECT, but its files are the page cache";
  }
  if (!device && magic == kZfsMagic) return "unknown: zfs caches in its ARC, which mincore does not show";
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t length = std::max<size_t>(page, alignment);
  // Clean pages somebody left there would be taken for ours.
  posix_fadvise(fd, static_cast<off_t>(offset), static_cast<off_t>(length), POSIX_FADV_DONTNEED);
  const MappedPage mapped(fd, offset);
  const int before = mapped.Resident();
  if (before < 0) return std::string("unknown: mincore does not work here (") + strerror(errno) + ")";
  if (before == 1) return "unknown: the block probed stays in the page cache, something else uses it";
  AlignedBuffer buffer(length);
  const ssize_t n = pread(fd, buffer.data(), length, static_cast<off_t>(offset));
  if (n < 0) return std::string("not effective: reading with O_DIRECT fails (") + strerror(errno) + ")";
  if (static_cast<size_t>(n) < page) return "unknown: the object is smaller than a page";
  return mapped.Resident() == 0 ? "effective" : "not effective: the block read stayed in the page cache";
}

}  // namespace muster
