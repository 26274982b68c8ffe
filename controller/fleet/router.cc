#include "controller/fleet/router.h"

#include <utility>

namespace muster {

class AgentRouter::Gateway final : public AgentGateway {
 public:
  Gateway(AgentRouter& router, std::set<std::string> agents, std::shared_ptr<Route> route)
      : router_(router), agents_(std::move(agents)), route_(std::move(route)) {}
  ~Gateway() override {
    Gateway::SetSink(nullptr);
    router_.Close(agents_, route_);
  }

  std::vector<Member> Members() override {
    std::vector<Member> members = router_.hub_.Members();
    std::erase_if(members, [&](const Member& member) { return !agents_.contains(member.hello.agent_id); });
    return members;
  }
  void SetSink(AgentSink* sink) override {
    std::lock_guard lock(route_->mutex);
    route_->sink = sink;
  }
  void Send(const std::string& agent, AgentCommand command) override {
    if (agents_.contains(agent)) router_.hub_.Send(agent, std::move(command));
  }
  void Acknowledge(const std::string& agent, uint64_t sequence) override {
    if (agents_.contains(agent)) router_.hub_.Acknowledge(agent, sequence);
  }
  void RefuseReports(const std::string& agent, const absl::Status& why) override {
    if (agents_.contains(agent)) router_.hub_.RefuseReports(agent, why);
  }
  void Drop(const std::string& agent, const absl::Status& why) override {
    if (agents_.contains(agent)) router_.hub_.Drop(agent, why);
  }
  void CheckLeases() override { router_.hub_.CheckLeases(); }

 private:
  AgentRouter& router_;
  const std::set<std::string> agents_;
  const std::shared_ptr<Route> route_;
};

AgentRouter::AgentRouter(AgentGateway& hub) : hub_(hub) {
  hub_.SetSink(this);
}

AgentRouter::~AgentRouter() {
  hub_.SetSink(nullptr);
}

std::unique_ptr<AgentGateway> AgentRouter::Open(const std::vector<std::string>& agents) {
  auto route = std::make_shared<Route>();
  std::set<std::string> mine;
  {
    std::lock_guard lock(mutex_);
    for (const std::string& agent : agents) {
      if (routes_.try_emplace(agent, route).second) mine.insert(agent);
    }
  }
  return std::make_unique<Gateway>(*this, std::move(mine), std::move(route));
}

void AgentRouter::Close(const std::set<std::string>& agents, const std::shared_ptr<Route>& route) {
  std::lock_guard lock(mutex_);
  for (const std::string& agent : agents) {
    const auto found = routes_.find(agent);
    if (found != routes_.end() && found->second == route) routes_.erase(found);
  }
}

bool AgentRouter::OnAgentEvent(AgentEvent event) {
  std::shared_ptr<Route> route;
  {
    std::lock_guard lock(mutex_);
    const auto found = routes_.find(event.agent);
    if (found != routes_.end()) route = found->second;
  }
  if (route != nullptr) {
    std::lock_guard lock(route->mutex);
    if (route->sink != nullptr) return route->sink->OnAgentEvent(std::move(event));
  }
  // Nobody will commit it: the agent need not keep it.
  if (const auto* report = std::get_if<AgentReport>(&event.says)) hub_.Acknowledge(event.agent, report->sequence);
  return true;
}

void AgentRouter::OnFleetNote(const std::string& text) {
  std::set<std::shared_ptr<Route>> routes;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [agent, route] : routes_) routes.insert(route);
  }
  for (const auto& route : routes) {
    std::lock_guard lock(route->mutex);
    if (route->sink != nullptr) route->sink->OnFleetNote(text);
  }
}

}  // namespace muster
