#include "controller/service/server_credentials.h"

#include <fmt/format.h>
#include <grpc/grpc_security_constants.h>
#include <grpc/support/log.h>

#include <mutex>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/wire/grpc_status.h"
#include "controller/fleet/link_peer.h"
#include "controller/service/roles.h"

namespace muster {
namespace {

// Whoever can reach the port can cause these lines: so many a second, the rest is counted.
class BoundedLog {
 public:
  void Warn(const std::string& text) {
    std::lock_guard lock(mutex_);
    const Nanos now = SteadyClock::Get().Now();
    if (now - second_ >= kSecond) {
      if (left_out_ > 0) Log(LogLevel::kWarning, "{} more refusals within a second", left_out_);
      second_ = now;
      said_ = left_out_ = 0;
    }
    if (said_ >= kMost) {
      ++left_out_;
      return;
    }
    ++said_;
    Log(LogLevel::kWarning, "{}", text);
  }

 private:
  static constexpr int kMost = 10;
  std::mutex mutex_;
  Nanos second_ = 0;
  int said_ = 0, left_out_ = 0;
};

BoundedLog& Refusals() {
  static auto* const log = new BoundedLog;  // gRPC's threads may outlive main
  return *log;
}

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
    Refusals().Warn("call refused: " + FormatError(status));
    return ToGrpc(status);
  }
};

// What stands between `before` and the next of `until`; empty if `before` is not there.
std::string_view Between(std::string_view text, std::string_view before, std::string_view until) {
  const size_t at = text.find(before);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + before.size());
  text = text.substr(0, text.find_first_of(until));
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// gRPC tells of a connection that never became one by its log alone, in these words (1.51, chttp2_server.cc):
//   Handshaking failed: UNKNOWN:REASON {..., children:[INTERNAL:REASON {target_address:"ipv4:..."
void OnGrpcLog(gpr_log_func_args* args) {
  const std::string_view text = args->message;
  if (text.rfind("Handshaking failed: ", 0) != 0) {
    if (args->severity == GPR_LOG_SEVERITY_ERROR) Log(LogLevel::kDebug, "grpc: {}", text);
    return;
  }
  const std::string_view address = Between(text, "target_address:\"", "\"");
  const std::string_view reason = Between(text, "UNKNOWN:", "{");
  Refusals().Warn(fmt::format("connection{}{} refused: {}", address.empty() ? "" : " of ", address,
                              reason.empty() ? text.substr(0, 256) : reason));
}

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

void LogRefusedHandshakes() {
  gpr_set_log_function(OnGrpcLog);
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_DEBUG);
}

}  // namespace muster
