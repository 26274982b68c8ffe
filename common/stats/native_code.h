#pragma once
#include <cstdint>
#include <string>

namespace muster {

// A native code of a failed operation, for people: errno names; with bit 30 set a SCSI status (bits 20..27), sense key
// (16..19), ASC and ASCQ (SAM-5 5.3.1, SPC-4 4.5.6), as the iSCSI backend makes them: "CHECK CONDITION, sense 3/11/00".
std::string NativeCodeText(int32_t code);

}  // namespace muster
