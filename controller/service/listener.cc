#include "controller/service/listener.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <random>
#include <utility>

#include "common/base/clock.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "common/wire/version.h"
#include "controller/service/grpc_log.h"
#include "controller/service/server_credentials.h"
#include "controller/service/socket_dir.h"

namespace muster {
namespace {

constexpr int kMaxMessage = 16 << 20;
// Of one connection: a message, and what frames and TLS add to it.
constexpr uint64_t kMaxUnread = kMaxMessage + (uint64_t{1} << 20);
// Of all together, the last resort: gRPC then ends calls, those of the oldest connections first.
constexpr size_t kMaxMemory = size_t{1} << 30;
constexpr Nanos kGoodbye = 3 * kSecond;

}  // namespace

absl::Status Listener::AddTcp(grpc::ServerBuilder& builder) {
  if (options_.tcp.empty()) return absl::OkStatus();
  std::shared_ptr<grpc::ServerCredentials> credentials;
  if (options_.insecure_tcp) {
    Log(LogLevel::kWarning, "--insecure-tcp: whoever reaches the port may run and read everything; for the lab only");
    credentials = grpc::InsecureServerCredentials();
  } else {
    MUSTER_ASSIGN_OR_RETURN(const TlsCredentials tls,
                            LoadTls(options_.tls, TlsUse::kController, WallMicros() / 1'000'000));
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

absl::Status Listener::Opened() {
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
  if (server_ == nullptr) return in_use("SOCKET_IN_USE", path);
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

absl::Status Listener::Listen(const std::vector<grpc::Service*>& services) {
  ListenToGrpcLog();
  grpc::ServerBuilder builder;
  MUSTER_RETURN_IF_ERROR(AddTo(builder));
  builder.SetMaxReceiveMessageSize(kMaxMessage);
  builder.SetResourceQuota(grpc::ResourceQuota("links").Resize(kMaxMemory));
  for (grpc::Service* service : services) builder.RegisterService(service);
  server_ = builder.BuildAndStart();
  absl::Status opened = Opened();
  if (!opened.ok()) {
    server_.reset();
    return opened;
  }
  if (!ports_.empty())
    guard_ = std::make_unique<UnreadGuard>(std::vector<uint16_t>(ports_.begin(), ports_.end()), kMaxUnread);
  return absl::OkStatus();
}

void Listener::Close(LinkHub& hub) {
  if (server_ == nullptr) return;
  if (!hub.GoodbyeAll("the controller is ending", kGoodbye)) {
    Log(LogLevel::kWarning, "agents did not end their links within {}", FormatDuration(kGoodbye));
  }
  // What is still open is cancelled at the deadline; returns when the last callback has.
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  server_.reset();
  guard_.reset();
  if (!options_.socket_path.empty()) unlink(options_.socket_path.c_str());
}

FleetOptions FleetOf(std::string build, Nanos lease) {
  return {.api_min = kApiMin,
          .api_max = kApiMax,
          .build = std::move(build),
          .lease = lease,
          .boot_id = BootId(),
          .time_namespace = TimeNamespaceInode()};
}

uint64_t RandomEpoch() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32 | device()) | 1;
}

}  // namespace muster
