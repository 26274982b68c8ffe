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
#include "controller/service/agent_link_service.h"
#include "controller/service/controller_server.h"
#include "controller/service/inspector.h"
#include "controller/service/listener.h"
#include "controller/service/socket_dir.h"

namespace muster {
namespace {

constexpr int kMaxMessage = 16 << 20;
constexpr Nanos kGoodbye = 3 * kSecond;

uint64_t RandomEpoch() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32 | device()) | 1;
}

class EmbeddedController final : public ControllerServer {
 public:
  explicit EmbeddedController(const ServerOptions& options)
      : listener_(options.listen),
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
  std::vector<Endpoint> Listening() const override { return listener_.endpoints(); }
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

  Listener listener_;
  const Clock& clock_;
  LinkHub hub_;  // outlives the server
  AgentLinkService service_;
  std::unique_ptr<grpc::Server> server_;
  uint64_t inspections_ = 0;
};

absl::Status EmbeddedController::Start() {
  grpc::ServerBuilder builder;
  MUSTER_RETURN_IF_ERROR(listener_.AddTo(builder));
  builder.SetMaxReceiveMessageSize(kMaxMessage);
  builder.RegisterService(&service_);
  server_ = builder.BuildAndStart();
  absl::Status opened = listener_.Opened(server_.get());
  if (!opened.ok()) server_.reset();
  return opened;
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
  listener_.Close();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ControllerServer>> ControllerServer::Listen(const ServerOptions& options) {
  auto controller = std::make_unique<EmbeddedController>(options);
  MUSTER_RETURN_IF_ERROR(controller->Start());
  return controller;
}

}  // namespace muster
