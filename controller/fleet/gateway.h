#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "controller/fleet/agent_messages.h"
#include "controller/fleet/members.h"

namespace muster {

// Receives what agents say. Called from any thread, also from network callbacks: must not block.
class AgentSink {
 public:
  virtual ~AgentSink() = default;
  // False: full; the agent is given up then (every event of a session counts).
  virtual bool OnAgentEvent(AgentEvent event) = 0;
  virtual void OnFleetNote(const std::string& text) = 0;
};

// The fleet as a run uses it. Thread-safe; no method blocks.
class AgentGateway {
 public:
  virtual ~AgentGateway() = default;
  virtual std::vector<Member> Members() = 0;
  // Events go to `sink` from now on, nowhere with nullptr. When it returns, the old sink is called no more.
  virtual void SetSink(AgentSink* sink) = 0;
  // In order per agent, once, also over a link that breaks and comes back; dropped for agents that are gone.
  virtual void Send(const std::string& agent, AgentCommand command) = 0;
  // Every report of the agent up to `sequence` is committed, or wanted by nobody.
  virtual void Acknowledge(const std::string& agent, uint64_t sequence) = 0;
  // Refuses the agent's Report stream with `why`, then drops the agent.
  virtual void RefuseReports(const std::string& agent, const absl::Status& why) = 0;
  // Ends the session, whether it has a link or not; an AgentGone follows unless one came before.
  virtual void Drop(const std::string& agent, const absl::Status& why) = 0;
  // Ends the sessions of agents whose lease has ended. To be called at least every 100 ms while somebody waits.
  virtual void CheckLeases() = 0;
  // Asked of every Hello, from any thread, before the agent is there: the sequence number after which the reports that
  // it holds of another controller's session are to come; nothing: they are wanted by nobody. Must not block.
  using WantsHeld = std::function<std::optional<uint64_t>(const HelloInfo& hello)>;
  virtual void SetWantsHeld(WantsHeld /*wants*/) {}
};

}  // namespace muster
