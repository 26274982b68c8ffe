#include "agent/backend/iscsi/cdb.h"

#include <algorithm>

#include "fmt/format.h"

namespace muster {
namespace {

uint16_t Get16(std::span<const uint8_t> d, size_t at) {
  return static_cast<uint16_t>(d[at] << 8 | d[at + 1]);
}
uint32_t Get32(std::span<const uint8_t> d, size_t at) {
  return uint32_t{Get16(d, at)} << 16 | Get16(d, at + 2);
}
uint64_t Get64(std::span<const uint8_t> d, size_t at) {
  return uint64_t{Get32(d, at)} << 32 | Get32(d, at + 4);
}

void Put16(uint8_t* p, uint16_t v) {
  p[0] = static_cast<uint8_t>(v >> 8);
  p[1] = static_cast<uint8_t>(v);
}
void Put32(uint8_t* p, uint32_t v) {
  Put16(p, static_cast<uint16_t>(v >> 16));
  Put16(p + 2, static_cast<uint16_t>(v));
}
void Put64(uint8_t* p, uint64_t v) {
  Put32(p, static_cast<uint32_t>(v >> 32));
  Put32(p + 4, static_cast<uint32_t>(v));
}

Cdb Make(uint8_t opcode, uint8_t size, ScsiDirection direction) {
  Cdb cdb;
  cdb.bytes[0] = opcode;
  cdb.size = size;
  cdb.direction = direction;
  return cdb;
}

Cdb Transfer(uint8_t opcode10, uint8_t opcode16, ScsiDirection direction, uint64_t block, uint32_t blocks, bool fua) {
  const bool small = block + blocks <= UINT32_MAX && blocks <= UINT16_MAX;
  Cdb cdb = Make(small ? opcode10 : opcode16, small ? 10 : 16, direction);
  cdb.bytes[1] = fua ? 0x08 : 0;
  if (small) {
    Put32(&cdb.bytes[2], static_cast<uint32_t>(block));
    Put16(&cdb.bytes[7], static_cast<uint16_t>(blocks));
  } else {
    Put64(&cdb.bytes[2], block);
    Put32(&cdb.bytes[10], blocks);
  }
  return cdb;
}

bool IsPage(std::span<const uint8_t> data, uint8_t page, size_t at_least) {
  return data.size() >= std::max<size_t>(at_least, 4) && data[1] == page;
}

std::string Hex(std::span<const uint8_t> data) {
  std::string text;
  for (const uint8_t byte : data) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace

Cdb TestUnitReadyCdb() {
  return Make(0x00, 6, ScsiDirection::kNone);
}

Cdb InquiryCdb(uint16_t room) {
  Cdb cdb = Make(0x12, 6, ScsiDirection::kRead);
  Put16(&cdb.bytes[3], room);
  return cdb;
}

Cdb VpdCdb(uint8_t page, uint16_t room) {
  Cdb cdb = InquiryCdb(room);
  cdb.bytes[1] = 1;
  cdb.bytes[2] = page;
  return cdb;
}

Cdb ReportLunsCdb(uint32_t room) {
  Cdb cdb = Make(0xa0, 12, ScsiDirection::kRead);
  Put32(&cdb.bytes[6], room);
  return cdb;
}

Cdb ReadCapacity10Cdb() {
  return Make(0x25, 10, ScsiDirection::kRead);
}

Cdb ReadCapacity16Cdb() {
  Cdb cdb = Make(0x9e, 16, ScsiDirection::kRead);
  cdb.bytes[1] = 0x10;
  Put32(&cdb.bytes[10], 32);
  return cdb;
}

Cdb ModeSense6Cdb(uint8_t page, uint8_t room) {
  Cdb cdb = Make(0x1a, 6, ScsiDirection::kRead);
  cdb.bytes[2] = page;
  cdb.bytes[4] = room;
  return cdb;
}

Cdb ReadCdb(uint64_t block, uint32_t blocks, bool fua) {
  return Transfer(0x28, 0x88, ScsiDirection::kRead, block, blocks, fua);
}
Cdb WriteCdb(uint64_t block, uint32_t blocks, bool fua) {
  return Transfer(0x2a, 0x8a, ScsiDirection::kWrite, block, blocks, fua);
}

Cdb SynchronizeCacheCdb(uint64_t blocks_of_unit) {
  return blocks_of_unit <= uint64_t{UINT32_MAX} + 1 ? Make(0x35, 10, ScsiDirection::kNone)
                                                    : Make(0x91, 16, ScsiDirection::kNone);
}

Cdb UnmapCdb() {
  Cdb cdb = Make(0x42, 10, ScsiDirection::kWrite);
  Put16(&cdb.bytes[7], kUnmapParameterBytes);
  return cdb;
}

void FillUnmapParameters(uint64_t block, uint32_t blocks, std::span<uint8_t, kUnmapParameterBytes> out) {
  std::fill(out.begin(), out.end(), 0);
  Put16(&out[0], kUnmapParameterBytes - 2);
  Put16(&out[2], kUnmapParameterBytes - 8);
  Put64(&out[8], block);
  Put32(&out[16], blocks);
}

bool ParseInquiry(std::span<const uint8_t> data, InquiryFacts& out) {
  if (data.size() < 36) return false;
  out.qualifier = data[0] >> 5;
  out.device_type = data[0] & 0x1f;
  out.vendor = PrintableText(data.subspan(8, 8));
  out.product = PrintableText(data.subspan(16, 16));
  out.revision = PrintableText(data.subspan(32, 4));
  return true;
}

bool ParseSerial(std::span<const uint8_t> data, std::string& out) {
  if (!IsPage(data, 0x80, 4)) return false;
  out = PrintableText(data.subspan(4, std::min<size_t>(Get16(data, 2), data.size() - 4)));
  return true;
}

bool ParseDeviceIds(std::span<const uint8_t> data, std::vector<std::string>& out) {
  if (!IsPage(data, 0x83, 4)) return false;
  data = data.subspan(4, std::min<size_t>(Get16(data, 2), data.size() - 4));
  while (data.size() >= 4) {
    const size_t length = data[3];
    if (length == 0 || data.size() < 4 + length) break;
    const std::span<const uint8_t> id = data.subspan(4, length);
    const bool of_unit = (data[1] & 0x30) == 0;
    switch (of_unit ? data[1] & 0xf : 0xf) {
      case 0x1:
        out.push_back("t10." + PrintableText(id));
        break;
      case 0x2:
        out.push_back("eui." + Hex(id));
        break;
      case 0x3:
        out.push_back("naa." + Hex(id));
        break;
      case 0xa:
        out.push_back("uuid." + Hex(id));
        break;
      default:
        break;
    }
    data = data.subspan(4 + length);
  }
  return true;
}

bool ParseBlockLimits(std::span<const uint8_t> data, BlockLimits& out) {
  if (!IsPage(data, 0xb0, 16)) return false;
  out.optimal_granularity_blocks = Get16(data, 6);
  out.max_transfer_blocks = Get32(data, 8);
  out.optimal_transfer_blocks = Get32(data, 12);
  if (data.size() < 32) return true;  // SBC-2: without the fields of UNMAP
  out.max_unmap_blocks = Get32(data, 20);
  out.max_unmap_ranges = Get32(data, 24);
  out.unmap_granularity_blocks = Get32(data, 28);
  return true;
}

bool ParseProvisioning(std::span<const uint8_t> data, ProvisioningFacts& out) {
  if (!IsPage(data, 0xb2, 6)) return false;
  out.unmap = (data[5] & 0x80) != 0;
  out.reads_zeroes = (data[5] & 0x04) != 0;
  return true;
}

bool ParseCapacity16(std::span<const uint8_t> data, CapacityFacts& out) {
  if (data.size() < 16) return false;
  out.blocks = Get64(data, 0) + 1;
  out.block_bytes = Get32(data, 8);
  out.physical_exponent = data[13] & 0xf;
  out.provisioned = (data[14] & 0x80) != 0;
  out.reads_zeroes = (data[14] & 0x40) != 0;
  return true;
}

bool ParseCapacity10(std::span<const uint8_t> data, CapacityFacts& out) {
  if (data.size() < 8) return false;
  out.blocks = uint64_t{Get32(data, 0)} + 1;
  out.block_bytes = Get32(data, 4);
  return true;
}

bool ParseModeSense6(std::span<const uint8_t> data, ModeFacts& out) {
  if (data.size() < 4) return false;
  out.write_protected = (data[2] & 0x80) != 0;
  out.dpofua = (data[2] & 0x10) != 0;
  const size_t page = 4 + size_t{data[3]};
  if (data.size() >= page + 3 && (data[page] & 0x3f) == 0x08) {
    out.has_caching = true;
    out.write_cache = (data[page + 2] & 0x04) != 0;
    out.read_cache_off = (data[page + 2] & 0x01) != 0;
  }
  return true;
}

bool ParseReportLuns(std::span<const uint8_t> data, std::vector<uint16_t>& out) {
  if (data.size() < 8) return false;
  const size_t end = 8 + std::min<size_t>(Get32(data, 0), data.size() - 8);
  for (size_t at = 8; at + 8 <= end; at += 8) {
    const uint8_t method = data[at] >> 6;  // SAM-5 4.7.3: 0 peripheral (bus 0), 1 flat space
    if (method == 0 && (data[at] & 0x3f) == 0) out.push_back(data[at + 1]);
    if (method == 1) out.push_back(Get16(data, at) & 0x3fff);
  }
  std::sort(out.begin(), out.end());
  return true;
}

std::string PrintableText(std::span<const uint8_t> data) {
  std::string text;
  for (const uint8_t byte : data) {
    if (byte == 0) break;
    text.push_back(byte >= 0x20 && byte < 0x7f ? static_cast<char>(byte) : '?');
  }
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

}  // namespace muster
