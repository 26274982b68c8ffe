#include "common/base/native_code.h"

#include <array>
#include <cstring>
#include <string_view>

#include "fmt/format.h"

namespace muster {
namespace {

constexpr uint8_t kCheckCondition = 0x02;

constexpr std::array<std::string_view, 16> kKeys = {
    "NO SENSE",       "RECOVERED ERROR", "NOT READY",   "MEDIUM ERROR",    "HARDWARE ERROR", "ILLEGAL REQUEST",
    "UNIT ATTENTION", "DATA PROTECT",    "BLANK CHECK", "VENDOR SPECIFIC", "COPY ABORTED",   "ABORTED COMMAND",
    "EQUAL",          "VOLUME OVERFLOW", "MISCOMPARE",  "COMPLETED"};

struct AscName {
  uint16_t code;
  std::string_view name;
};
// SPC-4 annex F.2, those a block target is likely to send.
constexpr AscName kAscNames[] = {
    {0x0400, "not ready, cause not reportable"},
    {0x0401, "becoming ready"},
    {0x0402, "initializing command required"},
    {0x0403, "manual intervention required"},
    {0x0404, "format in progress"},
    {0x040a, "asymmetric access state transition"},
    {0x040b, "target port in standby state"},
    {0x040c, "target port in unavailable state"},
    {0x0800, "communication failure"},
    {0x0c00, "write error"},
    {0x0c02, "write error, auto reallocation failed"},
    {0x0e03, "invalid field in command information unit"},
    {0x1001, "guard check failed"},
    {0x1100, "unrecovered read error"},
    {0x1a00, "parameter list length error"},
    {0x1d00, "miscompare during verify"},
    {0x2000, "invalid command operation code"},
    {0x2100, "logical block address out of range"},
    {0x2400, "invalid field in CDB"},
    {0x2500, "logical unit not supported"},
    {0x2600, "invalid field in parameter list"},
    {0x2700, "write protected"},
    {0x2701, "hardware write protected"},
    {0x2702, "software write protected"},
    {0x2707, "space allocation failed, write protect"},
    {0x2800, "medium may have changed"},
    {0x2900, "power on, reset or bus device reset"},
    {0x2901, "power on"},
    {0x2902, "SCSI bus reset"},
    {0x2903, "bus device reset"},
    {0x2904, "device internal reset"},
    {0x2907, "I_T nexus loss"},
    {0x2a01, "mode parameters changed"},
    {0x2a03, "reservations preempted"},
    {0x2a04, "reservations released"},
    {0x2a05, "registrations preempted"},
    {0x2a06, "asymmetric access state changed"},
    {0x2a09, "capacity data has changed"},
    {0x2c00, "command sequence error"},
    {0x2f00, "commands cleared by another initiator"},
    {0x3100, "medium format corrupted"},
    {0x3807, "thin provisioning soft threshold reached"},
    {0x3a00, "medium not present"},
    {0x3f01, "microcode has been changed"},
    {0x3f03, "inquiry data has changed"},
    {0x3f0e, "reported LUNs data has changed"},
    {0x4400, "internal target failure"},
    {0x4700, "SCSI parity error"},
    {0x4e00, "overlapped commands attempted"},
    {0x5300, "media load or eject failed"},
    {0x5500, "system resource failure"},
};

std::string_view StatusName(uint8_t status) {
  switch (status) {
    case 0x00:
      return "GOOD";
    case kCheckCondition:
      return "CHECK CONDITION";
    case 0x04:
      return "CONDITION MET";
    case 0x08:
      return "BUSY";
    case 0x18:
      return "RESERVATION CONFLICT";
    case 0x28:
      return "TASK SET FULL";
    case 0x30:
      return "ACA ACTIVE";
    case 0x40:
      return "TASK ABORTED";
    default:
      return {};
  }
}

}  // namespace

std::string NativeCodeName(int32_t code) {
  if (code == 0) return "no code";
  if (code < 0 || (code & kScsiNativeMark) == 0) {
    const char* name = code > 0 ? strerrorname_np(code) : nullptr;
    return name != nullptr ? name : fmt::format("code {}", code);
  }
  const auto status = static_cast<uint8_t>(code >> 20);
  if (status != kCheckCondition) {
    const std::string_view name = StatusName(status);
    return name.empty() ? fmt::format("SCSI status {:02X}h", status) : std::string(name);
  }
  const std::string_view key = kKeys[(code >> 16) & 0xf];
  const auto asc_ascq = static_cast<uint16_t>(code);
  std::string numbers = fmt::format("{} {:02X}/{:02X}", key, asc_ascq >> 8, asc_ascq & 0xff);
  for (const AscName& entry : kAscNames) {
    if (entry.code == asc_ascq) return fmt::format("{} {}", numbers, entry.name);
  }
  return numbers;
}

}  // namespace muster
