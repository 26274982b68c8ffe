#include "agent/backend/iscsi/sense.h"

#include "common/base/native_code.h"

namespace muster {
namespace {

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
  return kScsiNativeMark | answer.status << 20 | (answer.sense_key & 0xf) << 16 | answer.asc_ascq;
}

}  // namespace muster
