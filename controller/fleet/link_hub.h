#pragma once
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "controller/fleet/gateway.h"
#include "controller/fleet/link_peer.h"
#include "controller/fleet/link_stream.h"
#include "muster/v1/agent_link.pb.h"

namespace muster {

class ControlStream;
class ReportStream;

// All links of the controller: admits agents, answers Beats at once in gRPC's threads, hands everything else to the
// sink. Thread-safe; no method blocks but the Waits. It must outlive the gRPC server.
//
// A broken link is no lost agent: the session goes on until its lease ends, and a link of the same process takes it up
// (Fleet). What is numbered is numbered, and handed on, under `order_`, which makes "once and in order" hold across the
// links of an agent; it is taken before `mutex_` and before the sink's, never after them.
// Locks: never calls a stream or the sink with `mutex_` held.
class LinkHub final : public AgentGateway {
 public:
  LinkHub(FleetOptions options, uint64_t epoch, const Clock& clock);
  ~LinkHub() override;

  grpc::ServerBidiReactor<v1::AgentMessage, v1::ControllerMessage>* NewControl(grpc::CallbackServerContext* context);
  grpc::ServerBidiReactor<v1::ReportMessage, v1::ReportAck>* NewReport(grpc::CallbackServerContext* context);

  std::vector<Member> Members() override;
  void SetSink(AgentSink* sink) override;
  void Send(const std::string& agent, AgentCommand command) override;
  void Acknowledge(const std::string& agent, uint64_t sequence) override;
  void RefuseReports(const std::string& agent, const absl::Status& why) override;
  void Drop(const std::string& agent, const absl::Status& why) override;
  void CheckLeases() override;
  void SetWantsHeld(WantsHeld wants) override;

  // Those of Members, and those whose link is down while their lease runs.
  std::vector<Member> Everybody();
  std::vector<std::string> Refusals();
  // Until somebody has joined, left or been refused, or the time is over.
  void WaitForChange(Nanos timeout);
  // Says Goodbye to every agent, admits nobody any more, and waits until all streams have ended. False on time-out.
  bool GoodbyeAll(const std::string& reason, Nanos timeout);

 private:
  friend class ControlStream;
  friend class ReportStream;
  struct Link {
    uint64_t id = 0;
    std::string agent;
    std::shared_ptr<ControlStream> control;
    std::shared_ptr<ReportStream> report;  // none until the agent opens it
    bool greeted = false;                  // its HelloReply is queued: commands may follow
  };

  // From the streams.
  struct Admitted {
    std::vector<v1::ControllerMessage> messages;  // HelloReply, and the commands that are said again
    uint64_t link = 0;                            // 0: refused
    Link replaced;
  };
  Admitted OnHello(const std::shared_ptr<ControlStream>& stream, const HelloInfo& hello, Nanos now);
  // Answers Hello; sets `link` when the agent is admitted.
  bool Greet(const std::shared_ptr<ControlStream>& stream, const HelloInfo& hello, Nanos now,
             std::atomic<uint64_t>& link);
  void OnBeat(const std::string& agent, uint64_t link, const BeatInfo& beat, Nanos t2, Nanos t3,
              std::shared_ptr<void> ticket);
  // The agent whose link that is; empty: no such link, or it has a Report stream already.
  // Over mutual TLS a Report stream may only belong to the agent its certificate names.
  std::string AdoptReport(uint64_t link, const std::shared_ptr<ReportStream>& stream, const CallPeer& peer);
  // A numbered message, or a report; handed to the sink once. LINK_REPLACED, CONTROL_GAP, CONTROLLER_OVERLOADED.
  absl::Status OnSaid(const std::string& agent, uint64_t link, uint64_t seq, AgentSays says,
                      std::shared_ptr<void> ticket);
  absl::Status OnReport(const std::string& agent, uint64_t link, AgentReport report, std::shared_ptr<void> ticket);
  // What a Beat's answer acknowledges: the number of the last message heard, and of the last report committed.
  std::pair<uint64_t, uint64_t> Acknowledged(const std::string& agent);
  // False: the sink is full.
  bool Deliver(AgentEvent event);
  // The link is over, the session is not; tells the sink once. Both streams are closed.
  void Down(uint64_t link, const absl::Status& why);
  // The session is over; tells the sink once. Both streams are closed, at once or after what is queued.
  void Lost(const std::string& agent, uint64_t link, const absl::Status& why, bool at_once);
  void CloseStreams(const absl::Status& why, bool at_once, const Link& link);
  void StreamDone();

  std::shared_ptr<ControlStream> ControlOf(const std::string& agent);
  std::shared_ptr<ReportStream> ReportOf(const std::string& agent);
  uint64_t LinkOf(const std::string& agent);

  const Clock& clock_;
  const uint64_t epoch_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Fleet fleet_;
  std::map<uint64_t, Link> links_;                      // by link id
  std::vector<std::weak_ptr<ControlStream>> greeting_;  // dialled, no Hello yet
  uint64_t next_link_ = 0;
  uint64_t changes_ = 0;
  size_t streams_ = 0;  // not yet done
  bool closed_ = false;
  std::recursive_mutex order_;
  std::mutex sink_mutex_;  // held while the sink is called
  AgentSink* sink_ = nullptr;
  WantsHeld wants_held_;  // with sink_mutex_
};

}  // namespace muster
