#include "agent/guard/device_ends.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "common/base/status.h"
#include "common/base/units.h"

namespace muster {
namespace {

constexpr uint64_t kChunk = uint64_t{1} << 20;
constexpr std::align_val_t kAlignment{64 << 10};

absl::Status ReadAll(int fd, std::span<uint8_t> out, uint64_t offset, const std::string& place) {
  while (!out.empty()) {
    const ssize_t n = pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      return ErrnoError(n == 0 ? EIO : errno, "cannot read at offset " + std::to_string(offset), place,
                        "Look for I/O errors of the device in `dmesg`.");
    }
    out = out.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return absl::OkStatus();
}

absl::Status WriteAll(int fd, std::span<const uint8_t> bytes, uint64_t offset, const std::string& place) {
  while (!bytes.empty()) {
    const ssize_t n = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      return ErrnoError(n == 0 ? EIO : errno, "cannot write at offset " + std::to_string(offset), place,
                        "Look for I/O errors of the device in `dmesg`.");
    }
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return absl::OkStatus();
}

absl::Status Flush(int fd, const std::string& place) {
  if (fsync(fd) == 0) return absl::OkStatus();
  return ErrnoError(errno, "cannot flush", place, "Look for I/O errors of the device in `dmesg`.");
}

}  // namespace

AlignedBuffer::AlignedBuffer(size_t bytes)
    : data_(static_cast<uint8_t*>(::operator new(bytes, kAlignment))), bytes_(bytes) {
  std::memset(data_, 0, bytes);
}

AlignedBuffer::~AlignedBuffer() {
  ::operator delete(data_, kAlignment);
}

absl::StatusOr<DeviceEnds> ReadEnds(int fd, uint64_t size, const std::string& place) {
  DeviceEnds ends;
  AlignedBuffer buffer(kChunk);
  bool blank = true;     // every byte seen is zero
  bool reserved = true;  // every byte of the reserved regions is zero, the label's 4 KiB excepted
  uint64_t first_any = size;
  uint64_t first_reserved = size;
  const uint64_t head_end = std::min(size, kExaminedBytes);
  const uint64_t tail_start = std::max(head_end, size > kExaminedBytes ? size - kExaminedBytes : 0);
  const std::pair<uint64_t, uint64_t> regions[] = {{0, head_end}, {tail_start, size}};
  for (const auto& [start, end] : regions) {
    for (uint64_t at = start; at < end; at += kChunk) {
      const auto chunk = buffer.span().first(static_cast<size_t>(std::min(kChunk, end - at)));
      MUSTER_RETURN_IF_ERROR(ReadAll(fd, chunk, at, place));
      if (at == 0) ends.label = DecodeLabel(chunk);
      const size_t skip = at == 0 && ends.label.has_value() ? std::min(kLabelBytes, chunk.size()) : 0;
      if (skip > 0) blank = false;
      for (size_t i = skip; i < chunk.size(); ++i) {
        if (chunk[i] == 0) continue;
        const uint64_t offset = at + i;
        first_any = std::min(first_any, offset);
        blank = false;
        if (offset < kReservedBytes || offset >= size - std::min(size, kReservedBytes)) {
          reserved = false;
          first_reserved = std::min(first_reserved, offset);
        }
      }
    }
  }
  if (blank) {
    ends.content = Content::kBlank;
  } else if (ends.label.has_value()) {
    ends.first_nonzero = reserved ? 0 : first_reserved;
    if (ends.label->device_size != size) {
      ends.why = "muster label of a device of " + std::to_string(ends.label->device_size) + " bytes";
    } else if (!reserved) {
      ends.why = "muster label, but something else wrote at offset " + std::to_string(first_reserved);
    } else {
      ends.content = Content::kOurs;
    }
  } else {
    ends.first_nonzero = first_any;
  }
  return ends;
}

absl::StatusOr<std::optional<Label>> ReadLabel(int fd, uint64_t size, const std::string& place) {
  constexpr uint64_t kRead = 64 << 10;  // a whole logical block of any size
  AlignedBuffer buffer(kRead);
  const auto bytes = buffer.span().first(static_cast<size_t>(std::min(kRead, size)));
  MUSTER_RETURN_IF_ERROR(ReadAll(fd, bytes, 0, place));
  return DecodeLabel(bytes);
}

absl::Status WriteLabel(int fd, const Label& label, uint32_t logical_block, const std::string& place) {
  AlignedBuffer buffer(std::max<size_t>(kLabelBytes, logical_block));
  const auto bytes = EncodeLabel(label);
  std::copy(bytes.begin(), bytes.end(), buffer.data());
  MUSTER_RETURN_IF_ERROR(WriteAll(fd, buffer.span(), 0, place));
  return Flush(fd, place);
}

absl::Status ZeroReserved(int fd, uint64_t size, const std::string& place) {
  AlignedBuffer zeros(kReservedBytes);
  MUSTER_RETURN_IF_ERROR(WriteAll(fd, zeros.span(), 0, place));
  MUSTER_RETURN_IF_ERROR(WriteAll(fd, zeros.span(), size - kReservedBytes, place));
  return Flush(fd, place);
}

}  // namespace muster
