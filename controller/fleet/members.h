#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/wire/control_log.h"
#include "controller/fleet/agent_messages.h"
#include "controller/fleet/clock_figures.h"

namespace muster {

struct FleetOptions {
  uint32_t api_min = 1, api_max = 1;  // versions this controller speaks
  std::string build;
  Nanos lease = 10 * kSecond;
  std::string boot_id;          // of the controller's host; empty: unknown
  uint64_t time_namespace = 0;  // of the controller
  size_t max_agents = 1024;
  uint64_t epoch = 0;  // random number of this controller process; names its sessions
};

// An agent that is there.
struct Member {
  HelloInfo hello;
  uint32_t api = 0;
  uint64_t link_id = 0;
  Nanos lease_end = 0;         // controller clock
  uint64_t last_sequence = 0;  // of the last report received
  uint64_t committed = 0;      // of the last report committed
  ClockReading clock;
  Nanos down_since = kNever;  // its link is down since then, its lease runs; kNever: the link is up
  bool up() const { return down_since == kNever; }
};

using CommandLog = ControlLog<AgentCommand>;

// What an accepted Hello brings about.
struct Welcome {
  Member member;
  // The session goes on: this link takes the place of another.
  bool resumed = false;
  Nanos down = 0;                           // how long it was without one, at most
  uint64_t replaced = 0;                    // the link before, whose end has not been noticed; 0: none
  uint64_t heard = 0;                       // number of the last message heard of the agent
  std::vector<CommandLog::Numbered> again;  // commands that it has not heard
  // A new session; one of the same id was there and has ended with this Hello, for this reason.
  std::optional<absl::Status> ended;
  bool wants_reports = false;  // the process is known: those that it holds are to come
  uint64_t reports = 0;        // made by the agent and not received, of those that are wanted
};

// Who is in the fleet, by the controller's clock alone. Pure bookkeeping: no clock, no I/O. Not thread-safe.
//
// The controller's view of a lease is the cautious one: an agent stops issuing `lease` after the *send* time of its
// last answered Beat, the controller counts from its *receipt*, which is later, so a lost agent has stopped by then.
class Fleet {
 public:
  explicit Fleet(FleetOptions options);

  // Admits an agent, takes up its session again, or says why not. Typed errors: API_VERSION (both ranges and builds),
  // AGENT_ID_TAKEN (both hosts), HELLO_INVALID, FLEET_FULL; they are remembered (the last 32) for WaitForAgents.
  // SESSION_OVER: the session it holds is not one of this controller any more; it is to end it, then come back.
  // `collecting`: somebody takes reports of agents that were lost. `handed_over`: somebody takes those that it holds of
  // another controller's session, after this sequence number.
  absl::StatusOr<Welcome> Admit(const HelloInfo& hello, uint64_t link_id, Nanos now, bool collecting = false,
                                std::optional<uint64_t> handed_over = std::nullopt);
  // The link broke. The agent stays a member until its lease ends. False: it was not its current link.
  bool LinkDown(const std::string& agent, uint64_t link_id, Nanos now);
  // A Beat of a member: extends the lease, feeds its clock figures. Returns texts for people: clocks of one host that
  // disagree (once until they agree again). Unknown link: nothing.
  std::vector<std::string> OnBeat(const std::string& agent, uint64_t link_id, const BeatInfo& beat, Nanos t2, Nanos t3);
  // A numbered message over that link: true when it is new, false when it was here before. CONTROL_GAP. LINK_REPLACED:
  // not the agent's current link; nothing it brings counts.
  absl::StatusOr<bool> Hear(const std::string& agent, uint64_t link_id, uint64_t seq);
  // The agent has heard commands up to `seq`. CONTROL_ACK.
  absl::Status Acknowledge(const std::string& agent, uint64_t link_id, uint64_t seq);
  // Numbers a command and keeps it until it is acknowledged. CONTROL_LOG_FULL, AGENT_UNKNOWN.
  absl::StatusOr<uint64_t> Command(const std::string& agent, AgentCommand command);
  uint64_t HeardOf(const std::string& agent) const;
  // A report over that link. False: not the agent's current link.
  bool OnReport(const std::string& agent, uint64_t link_id, uint64_t sequence);
  void OnCommitted(const std::string& agent, uint64_t sequence);
  // Forgets the agent if that link is still its current one.
  bool Remove(const std::string& agent, uint64_t link_id);
  // Agents whose lease has ended at `now`; they stay until removed.
  std::vector<std::string> Expired(Nanos now) const;

  const Member* Find(const std::string& agent) const;
  std::vector<Member> Members() const;  // by agent id
  std::vector<std::string> Refusals() const { return {refusals_.begin(), refusals_.end()}; }
  size_t size() const { return agents_.size(); }
  const FleetOptions& options() const { return options_; }

 private:
  struct Entry {
    Member member;
    ClockFigures clock;
    bool disagreed = false;
    CommandLog control;
    bool heard_any = false;      // it knows of its session
    bool wants_reports = false;  // as welcomed
  };
  // How far reports of a process were received whose session has ended.
  struct Former {
    uint64_t instance = 0, received = 0, committed = 0;
  };
  absl::Status Check(const HelloInfo& hello) const;
  absl::Status Refuse(absl::Status why);
  std::optional<Welcome> Resume(const HelloInfo& hello, uint64_t link_id, Nanos now);
  Entry* Current(const std::string& agent, uint64_t link_id);
  void Forget(const std::string& agent);
  std::string Disagreement(const Entry& entry) const;

  FleetOptions options_;
  std::map<std::string, Entry, std::less<>> agents_;
  std::map<std::string, Former, std::less<>> former_;  // at most max_agents
  std::deque<std::string> refusals_;
};

}  // namespace muster
