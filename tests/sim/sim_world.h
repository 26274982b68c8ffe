#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "controller/fleet/members.h"
#include "controller/run/run_machine.h"
#include "tests/sim/sim_agent.h"

namespace muster::sim {

// Everything a seed decides.
struct Scenario {
  uint64_t seed = 0;
  Plan plan;
  RunDeadlines deadlines;
  std::vector<SimAgent::Options> agents;
  bool stranger = false;  // an agent of another API version tries to join
  Nanos lease = 10 * kSecond;
  Nanos store_latency = kMillisecond;
  uint64_t store_fails_after = UINT64_MAX;  // operations
  uint64_t store_hangs_after = UINT64_MAX;
  Nanos cancel_at = kNever, abort_at = kNever;

  bool Faulty() const;  // anything at all may go wrong
  std::string Describe() const;
};
Scenario Draw(uint64_t seed);

// For replays: one line each, empty for what is not worth one.
std::string Trace(const RunEvent& event);
std::string Trace(const RunAction& action);

// Runs one scenario to its end and notes every broken promise.
class SimWorld {
 public:
  explicit SimWorld(Scenario scenario, bool trace = false);
  ~SimWorld();

  void Run();
  const std::vector<std::string>& broken() const { return broken_; }
  const std::vector<std::string>& log() const { return log_; }
  const RunMachine& machine() const { return *machine_; }
  const std::map<uint32_t, std::shared_ptr<const StepResult>>& results() const { return results_; }
  Nanos elapsed() const { return queue_.now() - began_; }

 private:
  struct Link {
    std::unique_ptr<SimAgent> agent;
    bool closed = false;  // for the machine: lost, dropped or refused
    bool attach_sent = false, detach_sent = false;
    Nanos last_beat = 0;  // sent then, the last one answered: its lease runs from there
    uint64_t acknowledged = 0, received = 0, committed = 0;
    std::set<uint64_t> owed;  // handed to the store and not committed
  };
  void Feed(const RunEvent& event);
  void Do(const RunAction& action);
  void Store(std::function<RunEvent()> answer);  // one operation of the store thread, in order
  void Beats(const std::string& id);
  void Leases();
  void Broken(std::string text) { broken_.push_back(std::move(text)); }
  void CheckResult(const StepResult& result);
  void CheckOrphans(const StartCommand& start);
  void CheckEnd();
  Nanos Bound() const;

  void Note(std::string text);  // a line of the trace

  const Scenario scenario_;
  const bool trace_;
  SimQueue queue_;
  Fleet fleet_;
  std::unique_ptr<RunMachine> machine_;
  std::map<std::string, Link> links_;
  std::map<uint32_t, std::shared_ptr<const StepResult>> results_;
  std::map<PhaseKey, Nanos> starts_;  // instant named by the machine
  std::vector<std::string> broken_, log_;
  Nanos began_ = 0, store_free_ = 0;
  uint64_t store_operations_ = 0;
  bool store_failed_ = false, finished_ = false;
  int feeding_ = 0;
};

}  // namespace muster::sim
