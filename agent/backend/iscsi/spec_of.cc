#include "agent/backend/iscsi/spec_of.h"

#include <numeric>
#include <optional>
#include <random>
#include <utility>

#include "common/base/status.h"
#include "common/plan/portal.h"
#include "fmt/format.h"

namespace muster {
namespace {

constexpr size_t kExtraQualifiers = UINT16_MAX - kFirstExtraQualifier;  // one less than there are, for each + 1

absl::Status Fault(const char* field, std::string message) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {"INVALID_FIELD", field, std::move(message), "This is a fault of the controller; report it."});
}

}  // namespace

absl::StatusOr<IscsiConnectionSpec> SpecOf(const IscsiTarget& target, uint32_t initiator, uint32_t slot,
                                           uint16_t qualifier) {
  // What a campaign or message says is checked where it is read; this is about what was made of it.
  if (target.portals.empty() || target.luns.empty()) return Fault("iscsi", "the target has no portal or no LUN");
  if (!target.target_each() && slot >= target.luns.size()) {
    return Fault("iscsi.lun", fmt::format("object {} of a target with {} LUNs", slot, target.luns.size()));
  }
  IscsiConnectionSpec out;
  const auto portals = static_cast<uint32_t>(target.portals.size());
  const auto sources = static_cast<uint32_t>(target.sources.size());
  if (portals == 0) return Fault("iscsi.portal", "a target without portals");
  // Both lists go round; where their lengths share a factor, each round of both begins one portal later, so that every
  // pair comes.
  const uint32_t round = sources == 0 ? portals : std::lcm(portals, sources);
  const uint32_t portal = sources == 0 ? initiator % portals : (initiator + initiator / round) % portals;
  const std::optional<Portal> found = ParsePortal(target.portals[portal]);
  if (!found) return Fault("iscsi.portal", fmt::format("\"{}\" is no HOST[:PORT]", target.portals[portal]));
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
  return static_cast<uint16_t>(kFirstExtraQualifier + random() % kExtraQualifiers);
}

uint16_t ExtraQualifier(uint16_t first, size_t n) {
  return static_cast<uint16_t>(kFirstExtraQualifier + (first - kFirstExtraQualifier + 2 * n) % kExtraQualifiers);
}

}  // namespace muster
