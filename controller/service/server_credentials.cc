#include "controller/service/server_credentials.h"

#include <fmt/format.h>
#include <grpc/grpc_security_constants.h>

#include "common/base/status.h"
#include "common/wire/grpc_status.h"
#include "controller/fleet/link_peer.h"
#include "controller/fleet/refusal_log.h"
#include "controller/service/roles.h"

namespace muster {
namespace {

// Runs in gRPC's threads, once a call; does not block.
class RoleProcessor final : public grpc::AuthMetadataProcessor {
 public:
  bool IsBlocking() const override { return false; }

  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* context, OutputMetadata*,
                       OutputMetadata*) override {
    const auto path = metadata.find(":path");
    const std::string method = path == metadata.end() ? "" : std::string(path->second.data(), path->second.size());
    const auto who = IdentityOf(*context);
    if (!who) {
      return Refuse(absl::StatusCode::kUnauthenticated, "CERTIFICATE_NEEDED", method,
                    "no client certificate with a muster:// name was shown",
                    "Give --ca, --cert and --key of a certificate that the controller's authority signed.");
    }
    const std::string place = fmt::format("{} {}", RoleName(who->role), who->name);
    const auto needs = RequiredRole(method);
    if (!needs) {
      return Refuse(absl::StatusCode::kPermissionDenied, "METHOD_UNLISTED", method,
                    place + " called what nobody may call", "Is this client of another release?");
    }
    if (!Allows(who->role, *needs)) {
      return Refuse(absl::StatusCode::kPermissionDenied, "ROLE_MISSING", method,
                    fmt::format("{} may not: it takes the role {}", place, RoleName(*needs)),
                    "Use a certificate of that role.");
    }
    return grpc::Status::OK;
  }

 private:
  static grpc::Status Refuse(absl::StatusCode kind, std::string code, const std::string& method, std::string message,
                             std::string next) {
    const absl::Status status = MakeError(
        kind, {.code = std::move(code), .place = method, .message = std::move(message), .next = std::move(next)});
    LogRefusal("call refused: " + FormatError(status));
    return ToGrpc(status);
  }
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(const TlsCredentials& credentials) {
  // A certificate is asked for and verified if shown; without one the processor refuses with a typed error, which a
  // failed handshake cannot carry.
  grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = credentials.ca_pem;
  options.pem_key_cert_pairs.push_back({credentials.key_pem, credentials.cert_pem});
  auto made = grpc::SslServerCredentials(options);
  made->SetAuthMetadataProcessor(std::make_shared<RoleProcessor>());
  return made;
}

}  // namespace muster
