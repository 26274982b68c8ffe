#include "controller/cli/session.h"

#include <fmt/format.h>

#include <cstdio>
#include <set>
#include <variant>

#include "common/base/status.h"
#include "common/wire/version.h"
#include "controller/cli/json_events.h"
#include "controller/cli/output.h"

namespace muster {

LocalSession::~LocalSession() {
  if (server) server->Shutdown();
  if (agents) agents->Stop(5 * kSecond);
  agents.reset();
  server.reset();
}

absl::StatusOr<std::unique_ptr<LocalSession>> StartLocalSession(const Plan& plan, uint32_t count, Nanos lease,
                                                                const std::string& log_level,
                                                                const std::atomic<int>& cancel) {
  auto session = std::make_unique<LocalSession>();
  MUSTER_ASSIGN_OR_RETURN(session->dir, RuntimeDir::Create());
  ServerOptions server;
  server.listen.socket_path = session->dir->path() + "/control.sock";
  server.lease = lease;
  server.build = std::string(BuildString());
  MUSTER_ASSIGN_OR_RETURN(session->server, ControllerServer::Listen(server));

  LocalAgentsOptions agents;
  agents.count = count;
  agents.socket_path = server.listen.socket_path;
  agents.log_dir = session->dir->path();
  agents.log_level = log_level;
  MUSTER_ASSIGN_OR_RETURN(agents.agent_binary, FindAgentBinary());
  std::set<std::string> roots, devices;
  for (const Target& target : plan.targets) {
    if (const auto* file = std::get_if<FileTarget>(&target.kind)) roots.insert(file->dir);
    if (const auto* block = std::get_if<BlockTarget>(&target.kind)) devices.insert(block->device);
  }
  agents.roots.assign(roots.begin(), roots.end());
  agents.devices.assign(devices.begin(), devices.end());
  MUSTER_ASSIGN_OR_RETURN(session->agents, LocalAgents::Spawn(agents));

  // Short waits: an agent that could not start says more, and sooner, than "it is missing" after half a minute.
  const SteadyClock& clock = SteadyClock::Get();
  const Nanos deadline = clock.Now() + 30 * kSecond;
  for (;;) {
    absl::Status status = session->server->WaitForAgents(count, 200 * kMillisecond, cancel);
    if (status.ok()) break;
    if (absl::Status ended = session->agents->Check(); !ended.ok()) return ended;
    if (GetErrorInfo(status).code != "AGENTS_MISSING" || clock.Now() >= deadline) return status;
  }
  return session;
}

int Fail(const absl::Status& error, bool json, int exit_code) {
  if (json) Out("{}\n", JsonError(error));
  Err("muster: {}\n", FormatError(error));
  return exit_code;
}

void PlaceRefusals(const LoadedCampaign& campaign, std::vector<TargetView>& views) {
  const auto places = campaign.TargetPlaces();
  for (TargetView& view : views) {
    const auto place = places.find(view.target);
    if (view.refusal.ok() || place == places.end()) continue;
    view.refusal = AtPlace(
        view.refusal, fmt::format("{} target {}, agent {} on {}", place->second, view.target, view.agent, view.host));
  }
}

absl::StatusOr<ReadCampaign> ReadAndCompile(const std::string& path) {
  ReadCampaign out;
  MUSTER_ASSIGN_OR_RETURN(out.loaded, LoadCampaign(path));
  MUSTER_ASSIGN_OR_RETURN(out.plan, Compile(out.loaded));
  MUSTER_RETURN_IF_ERROR(ResolveSecrets(out.loaded, out.plan));
  return out;
}

}  // namespace muster
