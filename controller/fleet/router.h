#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "controller/fleet/gateway.h"

namespace muster {

// Lets several runs use one fleet: the only sink of the hub, it hands what an agent says to the run that has the agent.
// Each run gets a gateway that shows and reaches its own agents alone. Thread-safe; no method blocks.
//
// The router outlives its gateways, the hub the router. Locks: a route's mutex is held while its sink is called, the
// router's own never.
class AgentRouter final : public AgentSink {
 public:
  explicit AgentRouter(AgentGateway& hub);
  ~AgentRouter() override;

  // A gateway for one run. An agent has at most one: one that is taken stays with the gateway it has. Closing the
  // gateway frees its agents.
  std::unique_ptr<AgentGateway> Open(const std::vector<std::string>& agents);

  // What agents say that no run has is nobody's business: dropped, reports acknowledged, so that they need not be kept.
  bool OnAgentEvent(AgentEvent event) override;
  // Goes to every run.
  void OnFleetNote(const std::string& text) override;

 private:
  class Gateway;
  // A run's sink; shared with deliveries under way.
  struct Route {
    std::mutex mutex;
    AgentSink* sink = nullptr;
  };
  void Close(const std::set<std::string>& agents, const std::shared_ptr<Route>& route);

  AgentGateway& hub_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Route>, std::less<>> routes_;  // by agent
};

}  // namespace muster
