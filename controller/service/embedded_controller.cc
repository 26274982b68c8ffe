#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>

#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/wire/version.h"
#include "controller/fleet/link_hub.h"
#include "controller/run/driver.h"
#include "controller/service/controller_server.h"
#include "controller/service/inspector.h"
#include "controller/service/server_credentials.h"
#include "controller/service/socket_dir.h"
#include "muster/v1/agent_link.grpc.pb.h"

namespace muster {
namespace {

constexpr int kMaxMessage = 16 << 20;
constexpr Nanos kGoodbye = 3 * kSecond;

uint64_t RandomEpoch() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32 | device()) | 1;
}

// The RPCs are reactors of the hub; nothing here blocks.
class AgentLinkService final : public v1::AgentLink::CallbackService {
 public:
  explicit AgentLinkService(LinkHub& hub) : hub_(hub) {}
  grpc::ServerBidiReactor<v1::AgentMessage, v1::ControllerMessage>* Control(
      grpc::CallbackServerContext* context) override {
    return hub_.NewControl(context);
  }
  grpc::ServerBidiReactor<v1::ReportMessage, v1::ReportAck>* Report(grpc::CallbackServerContext* context) override {
    return hub_.NewReport(context);
  }

 private:
  LinkHub& hub_;
};

class EmbeddedController final : public ControllerServer {
 public:
  explicit EmbeddedController(const ServerOptions& options)
      : options_(options),
        clock_(SteadyClock::Get()),
        hub_({.api_min = kApiMin,
              .api_max = kApiMax,
              .build = options.build.empty() ? std::string(BuildString()) : options.build,
              .lease = options.lease,
              .boot_id = BootId(),
              .time_namespace = TimeNamespaceInode()},
             RandomEpoch(), clock_),
        service_(hub_) {}
  ~EmbeddedController() override { Stop(); }

  absl::Status Start();
  std::vector<Endpoint> Listening() const override { return listening_; }
  absl::Status WaitForAgents(uint32_t count, Nanos timeout, const std::atomic<int>& cancel) override;
  absl::StatusOr<std::vector<TargetView>> Inspect(const Plan& plan, Nanos timeout) override {
    return InspectTargets(InspectionOf(plan, ++inspections_), hub_, timeout, clock_);
  }
  absl::StatusOr<std::vector<TargetView>> Probe(const ProbeRequest& request, Nanos timeout) override {
    InspectCommand command{.request = ++inspections_, .items = {}};
    command.items.push_back(
        {.target = request.target, .objects = request.objects, .writes = request.writes, .probe = true});
    return InspectTargets(command, hub_, timeout, clock_);
  }
  RunOutcome Run(const Plan& plan, const RunOptions& options, RunObserver& observer,
                 const std::atomic<int>& cancel) override {
    return DriveRun(plan, options, observer, cancel, hub_, clock_);
  }
  void Shutdown() override { Stop(); }

 private:
  void Stop();
  absl::Status AddTcp(grpc::ServerBuilder& builder, std::vector<int>& ports);

  const ServerOptions options_;
  std::vector<Endpoint> listening_;
  const Clock& clock_;
  LinkHub hub_;  // outlives the server
  AgentLinkService service_;
  std::unique_ptr<grpc::Server> server_;
  uint64_t inspections_ = 0;
};

absl::Status EmbeddedController::AddTcp(grpc::ServerBuilder& builder, std::vector<int>& ports) {
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
  ports.resize(options_.tcp.size());
  for (size_t i = 0; i < options_.tcp.size(); ++i) {
    builder.AddListeningPort(options_.tcp[i].Text(), credentials, &ports[i]);
  }
  return absl::OkStatus();
}

absl::Status EmbeddedController::Start() {
  grpc::ServerBuilder builder;
  const std::string& path = options_.socket_path;
  if (!path.empty()) {
    MUSTER_RETURN_IF_ERROR(PrepareSocketPath(path));
    // No TLS: the 0700 directory lets nobody but this user connect (socket_dir.h).
    builder.AddListeningPort("unix:" + path, grpc::InsecureServerCredentials());
  }
  std::vector<int> ports;
  MUSTER_RETURN_IF_ERROR(AddTcp(builder, ports));
  builder.SetMaxReceiveMessageSize(kMaxMessage);
  builder.RegisterService(&service_);
  server_ = builder.BuildAndStart();
  const auto in_use = [](std::string code, std::string place) {
    return MakeError(absl::StatusCode::kUnavailable,
                     {.code = std::move(code),
                      .place = std::move(place),
                      .message = "it cannot be listened on: in use, or no address of this host",
                      .next = "Name another one, or look with ss -ltnp who has it."});
  };
  // gRPC goes on with the ports it got.
  for (size_t i = 0; i < ports.size(); ++i) {
    if (ports[i] != 0) continue;
    server_.reset();
    return in_use("PORT_IN_USE", options_.tcp[i].Text());
  }
  if (server_ == nullptr) return in_use("SOCKET_IN_USE", path);
  if (!path.empty()) {
    if (chmod(path.c_str(), 0600) != 0) return ErrnoError(errno, "chmod", path);
    listening_.push_back({.path = path});
  }
  for (size_t i = 0; i < ports.size(); ++i) {
    listening_.push_back(options_.tcp[i]);
    listening_.back().port = static_cast<uint16_t>(ports[i]);
  }
  return absl::OkStatus();
}

absl::Status EmbeddedController::WaitForAgents(uint32_t count, Nanos timeout, const std::atomic<int>& cancel) {
  const Nanos until = clock_.Now() + timeout;
  for (;;) {
    hub_.CheckLeases();
    const std::vector<Member> members = hub_.Members();
    if (members.size() >= count) return absl::OkStatus();
    if (cancel.load() > 0) {
      return MakeError(
          absl::StatusCode::kCancelled,
          {.code = "CANCELLED", .place = "fleet", .message = "cancelled while waiting for agents", .next = {}});
    }
    const Nanos now = clock_.Now();
    if (now >= until) {
      std::string text = fmt::format("{} of {} agents came within {}", members.size(), count, FormatDuration(timeout));
      for (const Member& member : members) {
        text += fmt::format("; there: {} on {}", member.hello.agent_id, member.hello.hostname);
      }
      for (const std::string& refusal : hub_.Refusals()) text += "; refused: " + refusal;
      return MakeError(absl::StatusCode::kUnavailable, {.code = "AGENTS_MISSING",
                                                        .place = "fleet",
                                                        .message = std::move(text),
                                                        .next = "Look at the logs of the agents that are missing."});
    }
    hub_.WaitForChange(std::min<Nanos>(until - now, 50 * kMillisecond));
  }
}

void EmbeddedController::Stop() {
  if (server_ == nullptr) return;
  if (!hub_.GoodbyeAll("the controller is ending", kGoodbye)) {
    Log(LogLevel::kWarning, "agents did not end their links within {}", FormatDuration(kGoodbye));
  }
  // What is still open is cancelled at the deadline; returns when the last callback has.
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  server_.reset();
  if (!options_.socket_path.empty()) unlink(options_.socket_path.c_str());
}

}  // namespace

absl::StatusOr<std::unique_ptr<ControllerServer>> ControllerServer::Listen(const ServerOptions& options) {
  auto controller = std::make_unique<EmbeddedController>(options);
  MUSTER_RETURN_IF_ERROR(controller->Start());
  return controller;
}

}  // namespace muster
