#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// SCSI commands as bytes, and what their answers say. Pure. SPC-4, SBC-3.
namespace muster {

enum class ScsiDirection : uint8_t { kNone, kRead, kWrite };

struct Cdb {
  std::array<uint8_t, 16> bytes{};
  uint8_t size = 0;
  ScsiDirection direction = ScsiDirection::kNone;
};

Cdb TestUnitReadyCdb();
Cdb InquiryCdb(uint16_t room);
Cdb VpdCdb(uint8_t page, uint16_t room);
Cdb ReportLunsCdb(uint32_t room);
Cdb ReadCapacity10Cdb();
Cdb ReadCapacity16Cdb();
Cdb ModeSense6Cdb(uint8_t page, uint8_t room);
// 10-byte forms where block address and count fit, else 16-byte ones.
Cdb ReadCdb(uint64_t block, uint32_t blocks, bool fua);
Cdb WriteCdb(uint64_t block, uint32_t blocks, bool fua);
// The whole unit; the 16-byte form where the last address needs it.
Cdb SynchronizeCacheCdb(uint64_t blocks_of_unit);
inline constexpr uint32_t kUnmapParameterBytes = 24;  // for one range
Cdb UnmapCdb();
void FillUnmapParameters(uint64_t block, uint32_t blocks, std::span<uint8_t, kUnmapParameterBytes> out);

struct InquiryFacts {
  uint8_t qualifier = 0;  // 0: connected, 1: could be, 3: no such unit
  uint8_t device_type = 0x1f;
  std::string vendor, product, revision;
};
// False: too short to be an answer. The parsers below likewise; they never read beyond `data`.
bool ParseInquiry(std::span<const uint8_t> data, InquiryFacts& out);
// The text of VPD 80h, trimmed.
bool ParseSerial(std::span<const uint8_t> data, std::string& out);
// The designators of VPD 83h that belong to the unit: "naa.6001405...", "eui.0025...", "t10.VENDOR ...", "uuid....".
bool ParseDeviceIds(std::span<const uint8_t> data, std::vector<std::string>& out);
struct BlockLimits {
  uint32_t max_transfer_blocks = 0;  // 0: not reported
  uint32_t optimal_transfer_blocks = 0;
  uint16_t optimal_granularity_blocks = 0;
  uint32_t max_unmap_blocks = 0;  // 0: none reported
  uint32_t max_unmap_ranges = 0;
  uint32_t unmap_granularity_blocks = 0;
};
bool ParseBlockLimits(std::span<const uint8_t> data, BlockLimits& out);
struct ProvisioningFacts {
  bool unmap = false;  // LBPU
  bool reads_zeroes = false;
};
bool ParseProvisioning(std::span<const uint8_t> data, ProvisioningFacts& out);
struct CapacityFacts {
  uint64_t blocks = 0;
  uint32_t block_bytes = 0;
  uint8_t physical_exponent = 0;  // 2^n logical blocks a physical one
  bool provisioned = false;       // LBPME
  bool reads_zeroes = false;      // LBPRZ
};
bool ParseCapacity16(std::span<const uint8_t> data, CapacityFacts& out);
bool ParseCapacity10(std::span<const uint8_t> data, CapacityFacts& out);
struct ModeFacts {
  bool write_protected = false;
  bool dpofua = false;
  bool has_caching = false;
  bool write_cache = false;     // WCE
  bool read_cache_off = false;  // RCD
};
bool ParseModeSense6(std::span<const uint8_t> data, ModeFacts& out);
// Single-level (peripheral, flat, logical unit) LUNs up to 16,383; other forms are left out.
bool ParseReportLuns(std::span<const uint8_t> data, std::vector<uint16_t>& out);

// Spaces at both ends and everything unprintable go.
std::string PrintableText(std::span<const uint8_t> data);

}  // namespace muster
