#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include "common/base/status.h"
#include "common/wire/version.h"
#include "controller/fleet/link_hub.h"
#include "controller/run/driver.h"
#include "controller/service/agent_link_service.h"
#include "controller/service/controller_server.h"
#include "controller/service/inspector.h"
#include "controller/service/listener.h"

namespace muster {
namespace {

class EmbeddedController final : public ControllerServer {
 public:
  explicit EmbeddedController(const ServerOptions& options)
      : listener_(options.listen),
        clock_(SteadyClock::Get()),
        hub_(FleetOf(options.build.empty() ? std::string(BuildString()) : options.build, options.lease), RandomEpoch(),
             clock_),
        service_(hub_) {}
  ~EmbeddedController() override { listener_.Close(hub_); }

  absl::Status Start() { return listener_.Listen({&service_}); }
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
  void Shutdown() override { listener_.Close(hub_); }

 private:
  Listener listener_;
  const Clock& clock_;
  LinkHub hub_;
  AgentLinkService service_;
  uint64_t inspections_ = 0;
};

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

}  // namespace

absl::StatusOr<std::unique_ptr<ControllerServer>> ControllerServer::Listen(const ServerOptions& options) {
  auto controller = std::make_unique<EmbeddedController>(options);
  MUSTER_RETURN_IF_ERROR(controller->Start());
  return controller;
}

}  // namespace muster
