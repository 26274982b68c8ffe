#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/plan/labels.h"
#include "controller/queue/target_claims.h"

namespace muster {

// An agent that is there, as the queue sees it.
struct QueueAgent {
  std::string id;
  std::string host;      // identity of its host: local targets belong to it
  std::string hostname;  // for people
  Labels labels;
};

// What a run needs before it can begin.
struct RunNeeds {
  std::string run;
  Labels match;
  uint32_t agents = 0;  // so many of those that match; 0: all that match and are there, at least one
  std::vector<TargetClaim> targets;
};

struct QueueLimits {
  size_t waiting = 64;
  size_t running = 16;
};

// Which run may begin: two runs never share an agent or a target. Pure bookkeeping: no clock, no I/O. Not thread-safe.
//
// First come, first served: runs are looked at in the order they came. One that has its agents there but must wait for
// somebody else keeps what it wants: no later run may take that, so nobody waits for ever while others overtake. One
// whose agents are not there at all keeps nothing, since it may never begin; it has its turn when they come.
class RunQueue {
 public:
  explicit RunQueue(QueueLimits limits = {}) : limits_(limits) {}

  // QUEUE_FULL names the limit.
  absl::Status Submit(RunNeeds needs, Nanos now);

  struct Start {
    std::string run;
    std::vector<std::string> agents;  // by id
  };
  // The runs that begin now, given who is there; they hold their agents and targets until Ended. Says for the others
  // what they wait for.
  std::vector<Start> Dispatch(const std::vector<QueueAgent>& there, Nanos now);

  // Takes a waiting run out; false: it does not wait.
  bool Cancel(const std::string& run);
  // A run that had begun is over: its agents are free, its targets from `quiet_at` on, since an agent it lost may load
  // them until then. Unknown runs are ignored.
  void Ended(const std::string& run, Nanos now = 0, Nanos quiet_at = 0);

  struct Waiting {
    std::string run;
    Nanos since = 0;                     // as given to Submit
    std::vector<std::string> waits_for;  // at most kReasons, the rest counted; empty before the first Dispatch
  };
  std::vector<Waiting> waiting() const;  // in order
  std::vector<std::string> running() const;
  // The run that holds the agent; empty: none.
  std::string UserOf(const std::string& agent) const;
  static constexpr size_t kReasons = 4;

 private:
  struct Entry {
    RunNeeds needs;
    Nanos since = 0;
    std::vector<std::string> waits_for;
  };
  struct Held {
    std::vector<std::string> agents;
    std::set<std::string> targets;          // keys: KeyOf
    Nanos ended_at = 0, quiet_at = kNever;  // over: the targets are held until the latter
  };
  struct Taken {
    std::string run;
    bool waits = false;     // kept for a run that waits itself
    Nanos quiet_after = 0;  // the run is over, an agent it lost may load the target for so long after that
  };
  // What earlier ones hold or keep.
  struct Claims {
    std::map<std::string, Taken, std::less<>> agents, targets;
  };
  // Agents it would take, or nothing and why.
  bool Choose(const RunNeeds& needs, const std::vector<QueueAgent>& there, const Claims& claims,
              std::vector<const QueueAgent*>& chosen, std::vector<std::string>& why) const;

  const QueueLimits limits_;
  std::vector<Entry> waiting_;
  std::map<std::string, Held, std::less<>> running_;
};

}  // namespace muster
