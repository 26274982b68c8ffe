#include "common/stats/native_code.h"

#include <cstring>

#include "fmt/format.h"

namespace muster {
namespace {

constexpr int32_t kScsi = 1 << 30;

std::string StatusText(uint32_t status) {
  switch (status) {
    case 0x02:
      return "CHECK CONDITION";
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
      return fmt::format("SCSI status {:02x}", status);
  }
}

}  // namespace

std::string NativeCodeText(int32_t code) {
  if (code == 0) return "no code";
  if ((code & kScsi) != 0 && code > 0) {
    const auto bits = static_cast<uint32_t>(code);
    const uint32_t status = (bits >> 20) & 0xff;
    if (status != 0x02) return StatusText(status);
    return fmt::format("CHECK CONDITION, sense {:x}/{:02x}/{:02x}", (bits >> 16) & 0xf, (bits >> 8) & 0xff,
                       bits & 0xff);
  }
  const char* name = code > 0 ? strerrorname_np(code) : nullptr;
  return name != nullptr ? std::string(name) : fmt::format("code {}", code);
}

}  // namespace muster
