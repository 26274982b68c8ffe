#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/session/session_machine.h"
#include "common/base/rng.h"
#include "tests/sim/sim_queue.h"

namespace muster::sim {

// One connection between an agent and the controller: four ordered flows. What is under way when it breaks is lost from
// some point of each flow on, or comes late, when another connection has taken its place.
struct Conn {
  uint64_t number = 0;  // the agent's
  uint64_t link = 0;    // the controller's; 0: no Hello accepted
  bool cut = false;     // broken; either side may not have noticed
  bool mute = false;    // broken without a word: neither side is told
  bool late = false;    // what was under way still comes
  bool over_at_agent = false, over_at_controller = false;
  Nanos free[4] = {};
  bool lossy[4] = {};
};
enum Flow { kSays, kCommands, kReports, kAcks };

// The real session machine of an agent over a played engine, target and clock. Every operation that the engine counts
// is issued at an instant at which its lease runs, or the agent is broken.
class LinkAgent {
 public:
  struct Options {
    std::string id;
    uint64_t instance = 0;
    Nanos clock_offset = 0;  // fleet minus agent
    uint64_t ops = 20;       // of an interval, at most
    size_t log_bytes = size_t{64} << 20;
  };
  struct Out {  // to the world
    std::function<void(uint64_t link, const agent::Hello&)> dial;
    std::function<void()> close;
    std::function<void(agent::Say)> say;
    std::function<void(std::shared_ptr<const agent::Report>)> report;
    std::function<void(std::string)> broken, note;
  };
  LinkAgent(Options options, uint64_t seed, SimQueue& queue, Out out);
  void Feed(const agent::Event& event);
  void Kill() { dead_ = true; }  // as SIGKILL: nothing is said, nothing is issued any more

  Nanos now() const { return queue_.now() - options_.clock_offset; }
  // In true time; what is submitted is submitted before it.
  Nanos load_ends_by() const { return lease_ + options_.clock_offset; }
  bool loading() const { return !dead_ && engine_ && engine_->running; }
  bool dead() const { return dead_; }
  const agent::SessionMachine& machine() const { return machine_; }
  const Options& options() const { return options_; }
  // Of each step: the window's responses by initiator, as measured.
  const std::map<uint32_t, std::map<uint32_t, Histogram>>& truth() const { return truth_; }

 private:
  struct Engine {
    uint64_t number = 0;
    PhaseSpec spec;
    bool running = false, ended = false;
    Nanos t0 = 0;  // local
    int64_t next = 0, last = 0;
    std::map<uint32_t, KindTotals> totals;
  };
  void Carry(const agent::Action& action);
  void Later(agent::Event event);
  void Edge(uint64_t number);
  void End(uint64_t number, bool aborted);
  void Wake();

  const Options options_;
  Rng rng_;
  Rng data_;
  SimQueue& queue_;
  const Out out_;
  agent::SessionMachine machine_;
  bool dead_ = false;
  bool feeding_ = false;
  std::vector<agent::Event> waiting_;
  Nanos wake_ = kNever;
  Nanos lease_ = 0;
  Nanos offset_ = 0;  // as estimated
  std::optional<Engine> engine_;
  std::map<uint32_t, std::map<uint32_t, Histogram>> truth_;
};

}  // namespace muster::sim
