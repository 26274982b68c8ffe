#include "common/tls/endpoint.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <charconv>

#include "common/base/status.h"

namespace muster {
namespace {

constexpr size_t kLongestName = 253;  // RFC 1035 2.3.4, as text

bool IsAddress(int family, const std::string& host) {
  unsigned char out[sizeof(in6_addr)];
  return inet_pton(family, host.c_str(), out) == 1;
}

absl::Status Invalid(std::string_view text, std::string why) {
  return MakeError(absl::StatusCode::kInvalidArgument, {.code = "ENDPOINT_INVALID",
                                                        .place = std::string(text.substr(0, 128)),
                                                        .message = std::move(why),
                                                        .next = "Write unix:/path/of/socket or HOST:PORT."});
}

bool GoodHost(std::string_view host) {
  if (host.empty() || host.size() > kLongestName) return false;
  for (const char c : host) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
                      c == '-' || c == '_' || c == ':' || c == '%';
    if (!good) return false;
  }
  return true;
}

}  // namespace

std::string Endpoint::Text() const {
  if (is_unix()) return "unix:" + path;
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

std::string Endpoint::DialTarget() const {
  if (is_unix()) return "unix:" + path;
  if (IsAddress(AF_INET, host)) return "ipv4:" + Text();
  if (host.find(':') != std::string::npos) return "ipv6:" + Text();
  return "dns:///" + Text();
}

absl::StatusOr<Endpoint> ParseEndpoint(std::string_view text) {
  Endpoint out;
  if (text.rfind("unix:", 0) == 0) {
    out.path = std::string(text.substr(5));
    if (out.path.empty() || out.path[0] != '/') return Invalid(text, "the path of a Unix socket must be absolute");
    return out;
  }
  std::string_view host = text, port;
  if (!text.empty() && text[0] == '[') {
    const size_t close = text.find(']');
    if (close == std::string_view::npos) return Invalid(text, "\"[\" without \"]\"");
    host = text.substr(1, close - 1);
    const std::string_view rest = text.substr(close + 1);
    if (!rest.empty() && rest[0] != ':') return Invalid(text, "after \"]\" only :PORT may follow");
    if (!rest.empty() && rest.size() == 1) return Invalid(text, "the port is missing after \":\"");
    if (!rest.empty()) port = rest.substr(1);
    if (!IsAddress(AF_INET6, std::string(host))) return Invalid(text, "brackets are for IPv6 addresses");
  } else if (const size_t colon = text.rfind(':'); colon != std::string_view::npos && text.find(':') == colon) {
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (port.empty()) return Invalid(text, "the port is missing after \":\"");
  }
  if (!GoodHost(host)) return Invalid(text, "that is no host name or address");
  if (host.find(':') != std::string_view::npos && !IsAddress(AF_INET6, std::string(host))) {
    return Invalid(text, "that is no host name or address");
  }
  out.host = std::string(host);
  out.port = Endpoint::kDefaultPort;
  if (!port.empty()) {
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), out.port);
    if (error != std::errc() || end != port.data() + port.size()) {
      return Invalid(text, fmt::format("\"{}\" is no port (0 to 65535)", port.substr(0, 32)));
    }
  }
  return out;
}

}  // namespace muster
