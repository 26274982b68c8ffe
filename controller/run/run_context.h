#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "controller/run/run_events.h"

namespace muster {

// An agent of the run. The set is fixed when the run begins: nobody joins later, a lost one does not come back.
struct FleetAgent {
  std::string id, host_id, hostname;
  bool insecure_tcp = false;  // its link is neither a Unix socket nor TLS
  std::string other_build;    // where it is not the controller's
  bool live = true;
  absl::Status lost;           // why, when not live
  bool unusable = false;       // what it reported could not be merged: nothing further is
  Nanos down_since = kNever;   // its link is down, its lease runs
  uint64_t reconnects = 0;     // links that took up its session again
  Nanos down = 0;              // time without a link, of those
  uint64_t last_sequence = 0;  // of the last report accepted
  uint64_t asked_commit = 0;   // handed to the store
  uint64_t committed = 0;      // reported back by the store
  uint64_t dropped = 0;        // received last, and not for the store
  ClockReading clock;
  bool attached = false;       // an Attach was sent: a Detach is owed
  std::set<std::string> owns;  // directories whose files this agent makes, and removes at Detach
};

// What the phases of a run share: the plan, the agents, the time of the event at hand and the actions so far.
// Owned by RunMachine; not thread-safe.
class RunContext {
 public:
  RunContext(const Plan& plan, RunMachineOptions options, std::vector<FleetAgent> agents);

  const Plan& plan;
  const RunMachineOptions options;
  std::vector<FleetAgent> agents;
  Nanos now = 0;
  std::vector<RunAction> actions;
  absl::Status first_loss;   // of any agent
  absl::Status store_error;  // the store keeps nothing further
  bool live_detail = false;  // DetailAsked
  Nanos quiet_at = 0;        // agents lost so far have stopped loading targets by then

  FleetAgent* Find(const std::string& id);
  const Target& TargetOf(const muster::Step& step) const;
  // "lab.yaml:4:3 target lun, agent local-1 on nas1": of what an agent says of a step's target.
  std::string PlaceOf(const muster::Step& step, const FleetAgent& agent) const;
  PhaseKey Key(uint32_t step, PhaseKind phase, uint32_t attempt = 0) const;

  // Nothing is sent to an agent that is lost.
  void Send(const FleetAgent& agent, AgentCommand command);
  void Tell(std::string text);
  // As Tell, but at most 64 times a run: for texts that a misbehaving agent can cause at will.
  void Complain(std::string text);
  // The agent is gone (`drop` false) or given up (`drop` true: its link is ended, so its lease ends too).
  void Lose(FleetAgent& agent, absl::Status why, bool drop);

  // A lost agent does not end the run (on_agent_loss: continue), and there is somebody to go on with.
  bool GoesOn() const;

  bool store_ok() const { return store_error.ok(); }
  // Reports handed to the store and not yet committed, of all agents. None count after a store failure.
  bool AllCommitted() const;
  // The store is slow: reports wait, agents must not be called silent for it.
  bool StoreBehind() const;
  Nanos store_waiting_since = kNever;  // oldest uncommitted report, kNever: none

  // 4 x the worst round trip of the live agents or the least lead, at most half the prepared-to-start deadline.
  Nanos StartLead() const;

 private:
  uint32_t complaints_ = 0;
};

// Drain, prepare and fill: op timeout + slack without progress.
inline Nanos NoProgress(const RunContext& ctx) {
  return ctx.plan.op_timeout + ctx.options.deadlines.no_progress_slack;
}

// How long an agent that is lost now may still load the target: its lease, the clock error, its drain.
inline Nanos OrphanTime(const RunContext& ctx, const FleetAgent& agent) {
  const Nanos error = agent.clock.error >= kNever ? 0 : agent.clock.error;
  return ctx.options.lease + error + NoProgress(ctx);
}

// Until an agent that was to end a phase must have said so: its own drain deadline comes first, with the better error.
inline Nanos DrainWait(const RunContext& ctx) {
  return NoProgress(ctx) + ctx.options.deadlines.end_slack;
}

// "step 3 measure attempt 0": steps are counted from 1 for people, as in plan and progress.
std::string KeyText(const PhaseKey& key);

}  // namespace muster
