#pragma once
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "agent/session/events.h"

namespace muster::agent {

// What comes in over a link. Called on any thread, also in network callbacks: must not block. `link` is the number of
// the Dial it belongs to.
class LinkListener {
 public:
  virtual ~LinkListener() = default;
  virtual void OnMessage(uint64_t link, uint64_t seq, ControllerSays message, Nanos received) = 0;
  virtual void OnBadMessage(uint64_t link, uint64_t seq, PhaseKey key, absl::Status status) = 0;
  virtual void OnAck(uint64_t link, uint64_t committed, absl::Status error) = 0;
  // The link is gone; nothing follows from it. Comes once for every Dial that is not closed before.
  virtual void OnLost(uint64_t link, absl::Status why) = 0;
};

// The way to one controller, one link at a time (Control and Report streams; agent/link has the gRPC one). All methods
// are called on the session thread; none blocks.
class ControllerLink {
 public:
  virtual ~ControllerLink() = default;  // closes; afterwards nothing is called on the listener
  // Starts a new link, Hello first. The previous one was closed.
  virtual void Dial(uint64_t link, const Hello& hello) = 0;
  virtual void OpenReports(uint64_t link_id) = 0;
  // False: not queued, the way out is full or broken; the link will be reported lost.
  virtual bool Say(uint64_t seq, const AgentSays& message) = 0;
  virtual bool Report(std::shared_ptr<const Report> report) = 0;
  // Flushes what was said, then ends the streams; the listener hears nothing more of this link.
  virtual void Close() = 0;
};

}  // namespace muster::agent
