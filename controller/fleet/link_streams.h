#pragma once
#include <atomic>
#include <string>

#include "controller/fleet/link_hub.h"
#include "controller/fleet/link_peer.h"
#include "controller/fleet/link_stream.h"

namespace muster {

// Control: Hello first, then Beats, which are answered here and now, and everything else for the sink.
class ControlStream final : public LinkStream<v1::AgentMessage, v1::ControllerMessage> {
 public:
  ControlStream(grpc::CallbackServerContext* context, LinkHub& hub, Nanos now)
      : LinkStream(context), hub_(hub), dialled_(now), peer_(PeerOf(*context)) {}
  // No Hello came within its time.
  bool Ungreeted(Nanos now) const { return link_ == 0 && now - dialled_ > 10 * kSecond; }
  void TimeOut(const absl::Status& why);
  const std::string& address() const { return peer_.address; }

 private:
  void OnMessage(const v1::AgentMessage& message, Nanos received) override;
  void OnOver() override;
  bool Greet(const v1::AgentMessage& message, Nanos received);
  bool Answer(const BeatInfo& beat, Nanos received, std::shared_ptr<void> ticket);
  void Fail(const absl::Status& why);
  std::shared_ptr<void> TakeTicket();

  LinkHub& hub_;
  const Nanos dialled_;
  const CallPeer peer_;
  std::string agent_;              // set once, by Hello
  std::atomic<uint64_t> link_{0};  // 0: no Hello accepted yet
  std::atomic<bool> over_{false};
  std::shared_ptr<std::atomic<int>> tickets_ = std::make_shared<std::atomic<int>>(0);
};

// Report: what an agent measures. Reads on only while few of its reports are unprocessed, so a slow store is felt by
// the agents' report logs and by nothing else.
class ReportStream final : public LinkStream<v1::ReportMessage, v1::ReportAck> {
 public:
  ReportStream(grpc::CallbackServerContext* context, LinkHub& hub)
      : LinkStream(context), hub_(hub), peer_(PeerOf(*context)) {}
  // Ends the stream with an acknowledgement that carries the error.
  void Refuse(const absl::Status& why);

 private:
  static constexpr int kWindow = 8;
  void OnMessage(const v1::ReportMessage& message, Nanos received) override;
  void OnOver() override;
  void Fail(const absl::Status& why);
  std::shared_ptr<void> TakeTicket();
  void TicketBack();

  LinkHub& hub_;
  const CallPeer peer_;
  std::string agent_;
  std::atomic<uint64_t> link_{0};
  std::mutex window_;
  int tickets_ = 0;
  bool paused_ = false;
};

}  // namespace muster
