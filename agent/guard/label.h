#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace muster {

// The mark muster leaves in the first 4 KiB of a block device or LUN it may overwrite. Everything else in the first
// and last MiB of a labelled device is zero, and no operation ever touches these two regions.
struct Label {
  std::array<uint8_t, 16> uuid{};  // chosen once, when the device is first labelled
  uint64_t generation = 0;         // counts guard runs: 1 for the first
  uint64_t device_size = 0;        // bytes; a label on a device of another size is not valid there
  int64_t created_micros = 0;      // wall clock of the first labelling, for display only
  std::string created_by;          // run and host that wrote this generation; cut to 255 bytes
};

inline constexpr size_t kLabelBytes = 4096;
inline constexpr uint64_t kReservedBytes = uint64_t{1} << 20;  // at each end of a labelled device

// Layout, little-endian: magic[16] "MUSTER-LABEL\r\n\x1a\0", u32 version = 1, u32 reserved = 0, uuid[16],
// u64 generation, u64 device size, i64 created, u16 length + created_by[255], zeros, u32 CRC-32C of bytes 0..4091.
std::array<uint8_t, kLabelBytes> EncodeLabel(const Label& label);

// The label, or nothing: magic, version, zeros and CRC must all hold. Takes the first 4 KiB (or more) of a device.
std::optional<Label> DecodeLabel(std::span<const uint8_t> bytes);

// A random (version 4) UUID.
std::array<uint8_t, 16> NewUuid();
std::string FormatUuid(const std::array<uint8_t, 16>& uuid);
bool ParseUuid(std::string_view text, std::array<uint8_t, 16>& uuid);

// CRC-32C (Castagnoli, RFC 3720 appendix B.4), table-driven; for labels and marks, not for data.
uint32_t Crc32c(std::span<const uint8_t> bytes);

}  // namespace muster
