#include "common/plan/portal.h"

#include <charconv>

namespace muster {

std::optional<Portal> ParsePortal(std::string_view text) {
  Portal out;
  std::string_view port;
  if (text.starts_with("[")) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    port = text.substr(end + 1);
    text = text.substr(1, end - 1);
  } else if (const size_t colon = text.find(':'); colon != std::string_view::npos && text.rfind(':') == colon) {
    port = text.substr(colon);
    text = text.substr(0, colon);
  }
  if (text.empty() || text.find_first_of(" []/") != std::string_view::npos) return std::nullopt;
  out.host = std::string(text);
  if (port.empty()) return out;
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(port.data() + 1, port.data() + port.size(), number);
  if (port[0] != ':' || error != std::errc() || end != port.data() + port.size() || number == 0 ||
      number > UINT16_MAX) {
    return std::nullopt;
  }
  out.port = static_cast<uint16_t>(number);
  return out;
}

}  // namespace muster
