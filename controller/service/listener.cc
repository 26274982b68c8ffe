#include "controller/service/listener.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/clock.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "controller/service/server_credentials.h"
#include "controller/service/socket_dir.h"

namespace muster {

absl::Status Listener::AddTcp(grpc::ServerBuilder& builder) {
  if (options_.tcp.empty()) return absl::OkStatus();
  std::shared_ptr<grpc::ServerCredentials> credentials;
  if (options_.insecure_tcp) {
    Log(LogLevel::kWarning, "--insecure-tcp: whoever reaches the port may run and read everything; for the lab only");
    credentials = grpc::InsecureServerCredentials();
  } else {
    MUSTER_ASSIGN_OR_RETURN(const TlsCredentials tls,
                            LoadTls(options_.tls, TlsUse::kController, WallMicros() / 1'000'000));
    LogRefusedHandshakes();
    credentials = MakeServerCredentials(tls);
  }
  // Two controllers on one port would share its connections between them by chance.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  ports_.resize(options_.tcp.size());
  for (size_t i = 0; i < options_.tcp.size(); ++i) {
    builder.AddListeningPort(options_.tcp[i].Text(), credentials, &ports_[i]);
  }
  return absl::OkStatus();
}

absl::Status Listener::AddTo(grpc::ServerBuilder& builder) {
  const std::string& path = options_.socket_path;
  if (!path.empty()) {
    MUSTER_RETURN_IF_ERROR(PrepareSocketPath(path));
    // No TLS: the 0700 directory lets nobody but this user connect (socket_dir.h).
    builder.AddListeningPort("unix:" + path, grpc::InsecureServerCredentials());
  }
  return AddTcp(builder);
}

absl::Status Listener::Opened(const grpc::Server* server) {
  const auto in_use = [](std::string code, std::string place) {
    return MakeError(absl::StatusCode::kUnavailable,
                     {.code = std::move(code),
                      .place = std::move(place),
                      .message = "it cannot be listened on: in use, or no address of this host",
                      .next = "Name another one, or look with ss -ltnp who has it."});
  };
  for (size_t i = 0; i < ports_.size(); ++i) {
    if (ports_[i] == 0) return in_use("PORT_IN_USE", options_.tcp[i].Text());
  }
  const std::string& path = options_.socket_path;
  if (server == nullptr) return in_use("SOCKET_IN_USE", path);
  if (!path.empty()) {
    if (chmod(path.c_str(), 0600) != 0) return ErrnoError(errno, "chmod", path);
    endpoints_.push_back({.path = path});
  }
  for (size_t i = 0; i < ports_.size(); ++i) {
    endpoints_.push_back(options_.tcp[i]);
    endpoints_.back().port = static_cast<uint16_t>(ports_[i]);
  }
  return absl::OkStatus();
}

void Listener::Close() {
  if (!options_.socket_path.empty()) unlink(options_.socket_path.c_str());
}

}  // namespace muster
