#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/guard/label.h"

namespace muster {

inline constexpr uint64_t kExaminedBytes = uint64_t{8} << 20;  // at each end

enum class Content {
  kBlank,    // every examined byte is zero
  kOurs,     // a valid label of this size, and the rest of the reserved regions is zero
  kForeign,  // anything else
};

struct DeviceEnds {
  Content content = Content::kForeign;
  std::optional<Label> label;  // a valid one, whatever its size
  uint64_t first_nonzero = 0;  // offset of the first byte that speaks against kBlank (label excepted), if kForeign
  std::string why;             // kForeign: "label of a device of 960 GB" or "" (unknown)
};

// Reads the first and last 8 MiB. `fd` may be with O_DIRECT (then the medium is asked, not the page cache).
absl::StatusOr<DeviceEnds> ReadEnds(int fd, uint64_t size, const std::string& place);

// Just the label, from the first 4 KiB (or one logical block, if larger).
absl::StatusOr<std::optional<Label>> ReadLabel(int fd, uint64_t size, const std::string& place);

// Replaces the label alone and flushes.
absl::Status WriteLabel(int fd, const Label& label, uint32_t logical_block, const std::string& place);

// Zeroes the first and last MiB and flushes.
absl::Status ZeroReserved(int fd, uint64_t size, const std::string& place);

// Memory for O_DIRECT, aligned to 64 KiB (the largest logical block Linux knows).
class AlignedBuffer {
 public:
  explicit AlignedBuffer(size_t bytes);
  ~AlignedBuffer();
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;
  uint8_t* data() { return data_; }
  std::span<uint8_t> span() { return {data_, bytes_}; }

 private:
  uint8_t* data_;
  size_t bytes_;
};

}  // namespace muster
