#include "agent/backend/iscsi/errors.h"

#include <cstring>

#include "common/base/status.h"
#include "fmt/format.h"

namespace muster {
namespace {

std::string Portal(const IscsiConnectionSpec& spec) {
  return spec.host.find(':') == std::string::npos ? fmt::format("{}:{}", spec.host, spec.port)
                                                  : fmt::format("[{}]:{}", spec.host, spec.port);
}

}  // namespace

std::string PlaceOf(const IscsiConnectionSpec& spec) {
  return fmt::format("portal {}, target {}", Portal(spec), spec.target);
}
std::string PlaceOf(const IscsiConnectionSpec& spec, uint16_t lun) {
  return fmt::format("{}, LUN {}", PlaceOf(spec), lun);
}

absl::Status ConnectError(const IscsiConnectionSpec& spec, const std::string& why) {
  return MakeError(absl::StatusCode::kUnavailable,
                   {"ISCSI_CONNECT", PlaceOf(spec), fmt::format("no connection to the portal: {}", why),
                    "Check address and port, that the target's service runs, and that no firewall is in between."});
}

absl::Status ResolveError(const IscsiConnectionSpec& spec, const std::string& host, const std::string& why) {
  return MakeError(absl::StatusCode::kUnavailable,
                   {"ISCSI_RESOLVE", PlaceOf(spec), fmt::format("no address for the name {}: {}", host, why),
                    "Check the name with `getent hosts`, or give an address."});
}

absl::Status ResolveTimeout(const IscsiConnectionSpec& spec, const std::string& host, Nanos patience) {
  return ResolveError(
      spec, host,
      fmt::format("the name servers did not answer within {:.1f} s", static_cast<double>(patience) / kSecond));
}

absl::Status BindError(const IscsiConnectionSpec& spec, int err) {
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      {"ISCSI_BIND", PlaceOf(spec),
       fmt::format("source {} port {} cannot be had: {}",
                   spec.source_address.empty() ? "any address" : spec.source_address,
                   spec.source_port == 0 ? "any" : fmt::format("{}", spec.source_port), strerrordesc_np(err)),
       "Give an address of this host, and a port that no other connection uses."});
}

absl::Status NoRdmaError(const IscsiConnectionSpec& spec, const std::string& why) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   {"ISCSI_NO_RDMA", PlaceOf(spec), fmt::format("iSER needs an RDMA device: {}", why),
                    "Use transport tcp, or load the driver of the RDMA device and rdma_ucm."});
}

absl::Status LoginStatusError(const IscsiConnectionSpec& spec, uint16_t status) {
  switch (status) {
    case 0x0201:
      return MakeError(absl::StatusCode::kUnauthenticated,
                       {"ISCSI_LOGIN_AUTH", PlaceOf(spec),
                        spec.user.empty() ? std::string("the target wants CHAP and none is given")
                                          : fmt::format("the target refused CHAP user {}", spec.user),
                        "Check CHAP user and secret of this target."});
    case 0x0202:
      return MakeError(
          absl::StatusCode::kPermissionDenied,
          {"ISCSI_LOGIN_ACL", PlaceOf(spec), fmt::format("initiator {} may not use the target", spec.initiator),
           "Add the initiator's name and address to the target's access list."});
    case 0x0203:
    case 0x0204:
      return MakeError(
          absl::StatusCode::kNotFound,
          {"ISCSI_NO_TARGET", PlaceOf(spec),
           fmt::format("the portal has no such target for initiator {}", spec.initiator),
           "Check the target's name, and its access list: some targets answer so to initiators that are not on it."});
    case 0x0200: {
      // LIO answers so, and with nothing else, when a key has no value that suits both sides.
      const bool digest = spec.header_digest == IscsiHeaderDigest::kCrc32c;
      return MakeError(
          absl::StatusCode::kFailedPrecondition,
          {digest ? "ISCSI_DIGEST" : "ISCSI_NEGOTIATION", PlaceOf(spec),
           fmt::format("the target does not accept what the login offered (status 0200h): HeaderDigest {}, DataDigest "
                       "None",
                       digest ? "CRC32C" : "None"),
           "Digests are the usual reason: allow the HeaderDigest asked for, and DataDigest None, at the target."});
    }
    case 0x0301:
      return MakeError(absl::StatusCode::kUnavailable,
                       {"ISCSI_NO_TARGET", PlaceOf(spec), "the portal says that the target is not in service",
                        "Check the target's name and that it is enabled: some targets (LIO among them) answer so to an "
                        "unknown name. It may also refuse logins for a while."});
    case 0x0302:
      return MakeError(absl::StatusCode::kResourceExhausted,
                       {"ISCSI_PROTOCOL", PlaceOf(spec), "the target refuses the login (out of resources)",
                        "Check the target's limit of sessions."});
    default:
      return MakeError(
          absl::StatusCode::kFailedPrecondition,
          {"ISCSI_PROTOCOL", PlaceOf(spec), fmt::format("the target refused the login with status {:04x}h", status),
           "Look into the target's log."});
  }
}

absl::Status MutualChapError(const IscsiConnectionSpec& spec) {
  return MakeError(absl::StatusCode::kUnauthenticated,
                   {"ISCSI_LOGIN_AUTH", PlaceOf(spec),
                    fmt::format("the target did not prove to be user {} (mutual CHAP)", spec.mutual_user),
                    "Check mutual user and secret here, and the target's outgoing account."});
}

absl::Status DigestError(const IscsiConnectionSpec& spec, const std::string& why) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   {"ISCSI_DIGEST", PlaceOf(spec), fmt::format("header digest: {}", why),
                    "Allow HeaderDigest CRC32C at the target, or ask for none; wrong digests on the way are a fault "
                    "of the network."});
}

absl::Status NoLunError(const IscsiConnectionSpec& spec, uint16_t lun, const std::string& why) {
  return MakeError(absl::StatusCode::kNotFound,
                   {"ISCSI_NO_LUN", PlaceOf(spec, lun), why, "List the target's LUNs and choose one that is a disk."});
}

absl::Status ReadOnlyError(const IscsiConnectionSpec& spec, uint16_t lun) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   {"ISCSI_READ_ONLY", PlaceOf(spec, lun), "the LUN is write-protected and the test writes",
                    "Use a read-only test, or lift the write protection at the target."});
}

absl::Status BlockSizeError(const IscsiConnectionSpec& spec, uint16_t lun, uint32_t found, uint32_t planned) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   {"ISCSI_BLOCK_SIZE", PlaceOf(spec, lun),
                    fmt::format("the LUN has blocks of {} bytes, planned was with {}", found, planned),
                    "Use block sizes and offsets that are multiples of the LUN's block."});
}

absl::Status LunSizeError(const IscsiConnectionSpec& spec, uint16_t lun, uint64_t found, uint64_t planned) {
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      {"ISCSI_LUN_SIZE", PlaceOf(spec, lun), fmt::format("the LUN has {} bytes, {} are to be used", found, planned),
       "Use a smaller working set or a larger LUN."});
}

absl::Status ProtocolError(const IscsiConnectionSpec& spec, const std::string& why) {
  return MakeError(absl::StatusCode::kInternal, {"ISCSI_PROTOCOL", PlaceOf(spec), why, "Look into the target's log."});
}

std::string WithoutSecrets(const IscsiConnectionSpec& spec, const std::string& text) {
  for (const std::string& secret : {spec.secret, spec.mutual_secret}) {
    if (!secret.empty() && text.find(secret) != std::string::npos) return {};
  }
  return text;
}

}  // namespace muster
