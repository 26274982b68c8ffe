#include "agent/backend/iscsi/spec_of.h"

#include <charconv>
#include <numeric>
#include <random>
#include <string_view>

#include "common/base/status.h"
#include "fmt/format.h"

namespace muster {
namespace {

constexpr uint16_t kDefaultPort = 3260;

// "host", "host:port", "[v6]", "[v6]:port", "v6" (several colons).
absl::Status ParsePortal(const std::string& text, IscsiConnectionSpec& out) {
  std::string_view host = text;
  std::string_view port;
  if (host.starts_with("[")) {
    const size_t end = host.find(']');
    if (end != std::string_view::npos) {
      port = host.substr(end + 1);
      host = host.substr(1, end - 1);
    }
  } else if (const size_t colon = host.find(':'); colon != std::string_view::npos && host.rfind(':') == colon) {
    port = host.substr(colon);
    host = host.substr(0, colon);
  }
  out.host = std::string(host);
  out.port = kDefaultPort;
  uint32_t number = kDefaultPort;
  bool good = !host.empty() && host.find_first_of(" []/") == std::string_view::npos;
  if (!port.empty()) {
    const auto [end, error] = std::from_chars(port.data() + 1, port.data() + port.size(), number);
    good = good && port[0] == ':' && error == std::errc() && end == port.data() + port.size() && number > 0 &&
           number <= UINT16_MAX;
  }
  if (!good) {
    return MakeError(absl::StatusCode::kInvalidArgument,
                     {"INVALID_FIELD", "iscsi.portal", fmt::format("\"{}\" is no HOST[:PORT]", text),
                      "Write an address or a name, and a port from 1 to 65535: 192.0.2.10:3260, [2001:db8::1]:3260."});
  }
  out.port = static_cast<uint16_t>(number);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<IscsiConnectionSpec> SpecOf(const IscsiTarget& target, uint32_t initiator, uint32_t slot,
                                           uint16_t qualifier) {
  IscsiConnectionSpec out;
  const auto portals = static_cast<uint32_t>(target.portals.size());
  const auto sources = static_cast<uint32_t>(target.sources.size());
  // Both lists go round; where their lengths share a factor, each round of both begins one portal later, so that every
  // pair comes.
  const uint32_t round = sources == 0 ? portals : std::lcm(portals, sources);
  const uint32_t portal = sources == 0 ? initiator % portals : (initiator + initiator / round) % portals;
  MUSTER_RETURN_IF_ERROR(ParsePortal(target.portals[portal], out));
  if (sources > 0) out.source_address = target.sources[initiator % sources];
  out.target = ForInitiator(target.iqn, slot);
  out.initiator = ForInitiator(target.initiator, initiator);
  out.isid_qualifier = qualifier;
  out.luns = {static_cast<uint16_t>(target.luns[target.target_each() ? slot % target.luns.size() : slot])};
  out.user = target.user;
  out.secret = target.secret.value;
  out.mutual_user = target.mutual_user;
  out.mutual_secret = target.mutual_secret.value;
  out.header_digest = target.header_digest ? IscsiHeaderDigest::kCrc32c : IscsiHeaderDigest::kNone;
  out.transport = target.iser ? IscsiTransport::kIser : IscsiTransport::kTcp;
  return out;
}

uint16_t ExtraQualifier() {
  static std::random_device random;
  return static_cast<uint16_t>(kFirstExtraQualifier + random() % (UINT16_MAX - kFirstExtraQualifier));
}

}  // namespace muster
