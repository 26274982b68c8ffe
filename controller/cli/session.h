#pragma once
#include <atomic>
#include <memory>
#include <string>

#include "controller/campaign/campaign.h"
#include "controller/cli/local_agents.h"
#include "controller/service/controller_server.h"

namespace muster {

// The embedded controller and its local agents, as `run` and `plan` use them. Ends everything on destruction, in the
// right order: agents first, then server, then directory.
struct LocalSession {
  std::unique_ptr<RuntimeDir> dir;
  std::unique_ptr<ControllerServer> server;
  std::unique_ptr<LocalAgents> agents;
  ~LocalSession();
};

// Listens, starts `count` agents that may touch exactly what the plan names, and waits until they are there.
absl::StatusOr<std::unique_ptr<LocalSession>> StartLocalSession(const Plan& plan, uint32_t count, Nanos lease,
                                                                const std::string& log_level,
                                                                const std::atomic<int>& cancel);

// Prints a typed error on stderr (or as JSON on stdout) and returns `exit_code`.
int Fail(const absl::Status& error, bool json, int exit_code);

// Refusals of the campaign's targets get the place where it names them, with target, agent and host.
void PlaceRefusals(const LoadedCampaign& campaign, std::vector<TargetView>& views);

// Reads and compiles; on failure prints and sets `exit_code`.
struct ReadCampaign {
  LoadedCampaign loaded;
  Plan plan;
};
absl::StatusOr<ReadCampaign> ReadAndCompile(const std::string& path);

}  // namespace muster
