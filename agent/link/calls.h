#pragma once
#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "agent/session/link.h"
#include "common/base/clock.h"
#include "common/wire/outbound_queue.h"
#include "muster/v1/agent_link.grpc.pb.h"

namespace muster::agent {

// What the two calls of one link share: the way to the listener, which is cut by Close, and who is still alive.
class LinkHub {
 public:
  LinkHub(uint64_t number, std::string place, const Clock& clock, LinkListener& listener)
      : number_(number), place_(std::move(place)), clock_(clock), listener_(&listener) {}

  const Clock& clock() const { return clock_; }
  void Message(uint64_t seq, ControllerSays message, Nanos received);
  void BadMessage(uint64_t seq, PhaseKey key, absl::Status status);
  void Ack(uint64_t committed, absl::Status error);
  // The first one counts; nothing is said after it.
  void Lost(const absl::Status& why);
  // When it returns, the listener is not being called and will not be.
  void Cut();

  void CallBegins();
  void CallEnds();
  bool WaitForCalls(Nanos timeout);

 private:
  const uint64_t number_;
  const std::string place_;
  const Clock& clock_;
  std::mutex listener_mutex_;  // held while the listener is called: it only queues
  LinkListener* listener_;
  std::mutex calls_mutex_;
  std::condition_variable ended_;
  int calls_ = 0;
};

// One bidirectional call. Writes go through the one outbound queue; a hold keeps the reactor alive while other threads
// may still start one, and is released by the queue's end. Owned by its shared_ptr and, until OnDone, by itself.
template <typename Out, typename In>
class Call : public grpc::ClientBidiReactor<Out, In>, public std::enable_shared_from_this<Call<Out, In>> {
 public:
  using Queue = OutboundQueue<Out>;

  bool Push(Out message) { return queue_.Push(std::move(message)); }
  // Flushes, then says that nothing more comes; the server ends the call.
  void Finish() { queue_.Finish(); }
  void Cancel() {
    queue_.Abandon();
    context_.TryCancel();
  }

 protected:
  Call(std::shared_ptr<LinkHub> hub, typename Queue::Limits limits)
      : hub_(std::move(hub)),
        queue_(
            limits, [](const Out& m) { return m.ByteSizeLong(); }, [this](const Out& m) { this->StartWrite(&m); },
            [this] {
              this->StartWritesDone();
              this->RemoveHold();
            }) {}

  // After the stub has been given the reactor.
  void Begin() {
    self_ = this->shared_from_this();
    hub_->CallBegins();
    this->AddHold();
    this->StartRead(&in_);
    this->StartCall();
  }
  virtual void OnIn(const In& message, Nanos received) = 0;

  void OnReadDone(bool ok) final {
    if (!ok) return queue_.Abandon();  // the stream is over; OnDone says why
    OnIn(in_, hub_->clock().Now());
    this->StartRead(&in_);
  }
  void OnWriteDone(bool ok) final { queue_.OnWriteDone(ok); }
  void OnDone(const grpc::Status& status) final;

  const std::shared_ptr<LinkHub> hub_;
  grpc::ClientContext context_;

 private:
  In in_;
  Queue queue_;
  std::shared_ptr<Call> self_;
};

class ControlCall final : public Call<v1::AgentMessage, v1::ControllerMessage> {
 public:
  explicit ControlCall(std::shared_ptr<LinkHub> hub);
  void Begin(v1::AgentLink::Stub& stub, const Hello& hello);

 private:
  void OnIn(const v1::ControllerMessage& message, Nanos received) override;
};

class ReportCall final : public Call<v1::ReportMessage, v1::ReportAck> {
 public:
  ReportCall(std::shared_ptr<LinkHub> hub, uint64_t link_id);
  void Begin(v1::AgentLink::Stub& stub);
  uint64_t link_id() const { return link_id_; }

 private:
  void OnIn(const v1::ReportAck& ack, Nanos received) override;
  const uint64_t link_id_;
};

}  // namespace muster::agent
