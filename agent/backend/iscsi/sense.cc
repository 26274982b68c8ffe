#include "agent/backend/iscsi/sense.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "fmt/format.h"

namespace muster {
namespace {

constexpr int32_t kScsiMark = 1 << 30;

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
    case kScsiGood:
      return "GOOD";
    case kScsiCheckCondition:
      return "CHECK CONDITION";
    case kScsiConditionMet:
      return "CONDITION MET";
    case kScsiBusy:
      return "BUSY";
    case kScsiReservationConflict:
      return "RESERVATION CONFLICT";
    case kScsiTaskSetFull:
      return "TASK SET FULL";
    case kScsiAcaActive:
      return "ACA ACTIVE";
    case kScsiTaskAborted:
      return "TASK ABORTED";
    default:
      return {};
  }
}

IoOutcome OutcomeOfSense(uint8_t key, uint16_t asc_ascq) {
  const uint8_t asc = asc_ascq >> 8;
  switch (key) {
    case 0x5:  // ILLEGAL REQUEST
      return asc == 0x25 ? IoOutcome::kIo : IoOutcome::kUnsupported;
    case 0x7:  // DATA PROTECT
      return asc_ascq == 0x2707 ? IoOutcome::kNoSpace : IoOutcome::kOther;
    case 0xd:  // VOLUME OVERFLOW
      return IoOutcome::kNoSpace;
    default:
      return IoOutcome::kIo;
  }
}

}  // namespace

ScsiVerdict JudgeScsi(const ScsiAnswer& answer) {
  if (!answer.delivered) return {ScsiAction::kFail, IoOutcome::kIo};
  switch (answer.status) {
    case kScsiGood:
    case kScsiConditionMet:
      return {ScsiAction::kDone, IoOutcome::kOk};
    case kScsiBusy:
    case kScsiTaskSetFull:
      return {ScsiAction::kRetryLater, IoOutcome::kIo};
    case kScsiReservationConflict:
      return {ScsiAction::kFail, IoOutcome::kOther};
    case kScsiTaskAborted:
      return {ScsiAction::kFail, IoOutcome::kAborted};
    case kScsiCheckCondition:
      break;
    default:
      return {ScsiAction::kFail, IoOutcome::kIo};
  }
  switch (answer.sense_key) {
    case 0x1:  // RECOVERED ERROR: the data is good
      return {ScsiAction::kDone, IoOutcome::kOk};
    case kSenseUnitAttention:
      return {ScsiAction::kRetryOnce, IoOutcome::kIo};
    default:
      return {ScsiAction::kFail, OutcomeOfSense(answer.sense_key, answer.asc_ascq)};
  }
}

int32_t NativeCodeOf(const ScsiAnswer& answer) {
  if (!answer.delivered) return answer.transport_errno;
  return kScsiMark | answer.status << 20 | (answer.sense_key & 0xf) << 16 | answer.asc_ascq;
}

std::string NativeCodeName(int32_t code) {
  if ((code & kScsiMark) == 0) {
    const char* name = strerrorname_np(code);
    return name != nullptr ? name : fmt::format("errno {}", code);
  }
  const auto status = static_cast<uint8_t>(code >> 20);
  if (status != kScsiCheckCondition) {
    const std::string_view name = StatusName(status);
    return name.empty() ? fmt::format("SCSI status {:02X}h", status) : std::string(name);
  }
  const std::string_view key = kKeys[(code >> 16) & 0xf];
  const auto asc_ascq = static_cast<uint16_t>(code);
  const std::string numbers = fmt::format("{} {:02X}/{:02X}", key, asc_ascq >> 8, asc_ascq & 0xff);
  for (const AscName& entry : kAscNames) {
    if (entry.code == asc_ascq) return fmt::format("{} {}", numbers, entry.name);
  }
  return numbers;
}

}  // namespace muster
