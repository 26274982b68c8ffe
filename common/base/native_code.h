#pragma once
#include <cstdint>
#include <string>

namespace muster {

// The native code of a failed operation is an errno, or with this bit a SCSI answer: status in bits 20..27, sense key
// in 16..19, ASC and ASCQ below (SAM-5 5.3.1, SPC-4 4.5.6 and annex F.2).
inline constexpr int32_t kScsiNativeMark = 1 << 30;

// For people: "ECONNRESET", "TASK SET FULL", "UNIT ATTENTION 29/00 power on, reset or bus device reset".
std::string NativeCodeName(int32_t code);

}  // namespace muster
