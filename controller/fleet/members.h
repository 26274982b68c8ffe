#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
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
};

// An agent that is there.
struct Member {
  HelloInfo hello;
  uint32_t api = 0;
  uint64_t link_id = 0;
  Nanos lease_end = 0;         // controller clock
  uint64_t last_sequence = 0;  // of the last report received
  ClockReading clock;
};

// Who is in the fleet, by the controller's clock alone. Pure bookkeeping: no clock, no I/O. Not thread-safe.
//
// The controller's view of a lease is the cautious one: an agent stops issuing `lease` after the *send* time of its
// last answered Beat, the controller counts from its *receipt*, which is later, so a lost agent has stopped by then.
class Fleet {
 public:
  explicit Fleet(FleetOptions options);

  // Admits an agent or says why not. Typed errors: API_VERSION (both ranges and builds), AGENT_ID_TAKEN (both hosts),
  // HELLO_INVALID, FLEET_FULL. Refusals are remembered (the last 32) for WaitForAgents.
  absl::StatusOr<Member> Admit(const HelloInfo& hello, uint64_t link_id, Nanos now);
  // A Beat of a member: extends the lease, feeds its clock figures. Returns texts for people: clocks of one host that
  // disagree (once until they agree again). Unknown link: nothing.
  std::vector<std::string> OnBeat(const std::string& agent, uint64_t link_id, const BeatInfo& beat, Nanos t2, Nanos t3);
  void OnReport(const std::string& agent, uint64_t sequence);
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
  };
  absl::Status Check(const HelloInfo& hello) const;
  std::string Disagreement(const Entry& entry) const;

  FleetOptions options_;
  std::map<std::string, Entry, std::less<>> agents_;
  std::deque<std::string> refusals_;
};

}  // namespace muster
