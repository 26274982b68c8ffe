#include "agent/backend/iscsi/spec_of.h"

#include <numeric>
#include <optional>
#include <random>

#include "common/base/status.h"
#include "common/plan/portal.h"
#include "fmt/format.h"

namespace muster {
namespace {

absl::Status NoPortal(const std::string& text) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {"INVALID_FIELD", "iscsi.portal", fmt::format("\"{}\" is no HOST[:PORT]", text),
                    "Write an address or a name, and a port from 1 to 65535: 192.0.2.10:3260, [2001:db8::1]:3260."});
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
  const std::optional<Portal> found = ParsePortal(target.portals[portal]);
  if (!found) return NoPortal(target.portals[portal]);
  out.host = found->host;
  out.port = found->port;
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
