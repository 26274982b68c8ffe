#pragma once
#include <cstdint>
#include <string>

#include "agent/backend/backend.h"

namespace muster {

// The end of one SCSI command as the target or the transport told it.
struct ScsiAnswer {
  bool delivered = false;  // the target answered; otherwise the transport failed and `transport_errno` says how
  uint8_t status = 0;      // SAM-5 5.3.1
  uint8_t sense_key = 0;   // SPC-4 4.5.6, with status CHECK CONDITION
  uint16_t asc_ascq = 0;
  uint32_t residual = 0;  // bytes asked and not transferred
  int transport_errno = 0;
};

inline constexpr uint8_t kScsiGood = 0x00;
inline constexpr uint8_t kScsiCheckCondition = 0x02;
inline constexpr uint8_t kScsiConditionMet = 0x04;
inline constexpr uint8_t kScsiBusy = 0x08;
inline constexpr uint8_t kScsiReservationConflict = 0x18;
inline constexpr uint8_t kScsiTaskSetFull = 0x28;
inline constexpr uint8_t kScsiAcaActive = 0x30;
inline constexpr uint8_t kScsiTaskAborted = 0x40;

inline constexpr uint8_t kSenseUnitAttention = 0x6;

// What the initiator does about it.
enum class ScsiAction : uint8_t {
  kDone,        // well, or well enough (RECOVERED ERROR)
  kRetryLater,  // BUSY, TASK SET FULL: again after a delay, inside the operation's time, as a kernel initiator does
  kRetryOnce,   // UNIT ATTENTION: again at once, one time
  kFail,
};
struct ScsiVerdict {
  ScsiAction action = ScsiAction::kDone;
  IoOutcome outcome = IoOutcome::kOk;  // with kFail, and with the others once they are used up
};
ScsiVerdict JudgeScsi(const ScsiAnswer& answer);

// A delivered answer as IoCompletion::native_code: bit 30, status in bits 20..27, key in 16..19, ASC and ASCQ below.
// A transport failure is its errno (below 4096).
int32_t NativeCodeOf(const ScsiAnswer& answer);

}  // namespace muster
