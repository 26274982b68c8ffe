#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "controller/fleet/members.h"
#include "controller/run/run_machine.h"
#include "tests/sim/link_agent.h"

namespace muster::sim {

// A cut of one agent's connection: at its n-th message, whoever says it.
struct CutAt {
  uint64_t message = 0;
  Nanos outage = 0;  // no connection is made for so long
  bool mute = false, late = false;
};

struct LinkScenario {
  uint64_t seed = 0;
  Plan plan;
  Nanos lease = 10 * kSecond;
  Nanos store_latency = kMillisecond;
  struct Agent {
    LinkAgent::Options options;
    Nanos latency = kMillisecond;
    std::vector<CutAt> cuts;
    uint64_t restart_at = UINT64_MAX;  // message at which the process is killed; another one follows
    Nanos restart_after = 0;
  };
  std::vector<Agent> agents;
  bool Gentle() const;  // short outages alone: the run must not notice but for its `links` check
  std::string Describe() const;
};
LinkScenario DrawLinks(uint64_t seed);

// Real session machines and the real fleet and run machine, over connections that break.
class LinkWorld {
 public:
  explicit LinkWorld(LinkScenario scenario, bool trace = false);
  void Run();
  const std::vector<std::string>& broken() const { return broken_; }
  const std::vector<std::string>& log() const { return log_; }
  const RunMachine& machine() const { return *machine_; }
  const std::map<uint32_t, std::shared_ptr<const StepResult>>& results() const { return results_; }
  uint64_t reconnects = 0, lost = 0, returned = 0, refused = 0, duplicates = 0, coarse = 0, resent = 0;

 private:
  struct Peer {
    const LinkScenario::Agent* plan = nullptr;
    std::vector<std::unique_ptr<LinkAgent>> processes;  // the last one lives
    std::shared_ptr<Conn> conn;                         // as the agent sees it
    std::shared_ptr<Conn> accepted;                     // as the controller sees it
    uint64_t messages = 0;
    size_t next_cut = 0;
    Nanos down_until = 0;
    uint64_t heard = 0;  // last number delivered in this session
    LinkAgent& agent() { return *processes.back(); }
  };
  void Boot(Peer& peer);
  void Send(Peer& peer, const std::shared_ptr<Conn>& conn, Flow flow, std::function<void()> deliver);
  void Cut(Peer& peer, const std::shared_ptr<Conn>& conn, const CutAt& cut);
  void OnHello(Peer& peer, const std::shared_ptr<Conn>& conn, const agent::Hello& hello);
  void OnSay(Peer& peer, const std::shared_ptr<Conn>& conn, const agent::Say& say);
  void OnReport(Peer& peer, const std::shared_ptr<Conn>& conn, const agent::Report& report);
  void Say(Peer& peer, const std::shared_ptr<Conn>& conn, uint64_t seq, agent::ControllerSays message);
  void Down(Peer& peer, const std::shared_ptr<Conn>& conn);
  void Gone(Peer& peer, const absl::Status& why);
  void Leases();
  void Feed(const RunEvent& event);
  void Do(const RunAction& action);
  void CheckResult(const StepResult& result);
  void Broken(std::string text) { broken_.push_back(std::move(text)); }
  void Note(const std::string& text);

  const LinkScenario scenario_;
  const bool trace_;
  SimQueue queue_;
  Rng rng_;
  Fleet fleet_;
  uint64_t links_ = 0;
  std::map<std::string, Peer> peers_;
  std::unique_ptr<RunMachine> machine_;
  std::map<uint32_t, std::shared_ptr<const StepResult>> results_;
  std::vector<std::string> broken_, log_;
  Nanos began_ = 0, store_free_ = 0;
};

}  // namespace muster::sim
