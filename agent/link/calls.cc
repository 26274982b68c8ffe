#include "agent/link/calls.h"

#include "agent/link/link_codec.h"
#include "common/base/status.h"
#include "common/wire/codec.h"
#include "common/wire/grpc_status.h"
#include "common/wire/rules.h"

namespace muster::agent {
namespace {

// The controller ended the call without an error: for the session the link is gone all the same.
absl::Status Ended() {
  return MakeError(absl::StatusCode::kUnavailable,
                   {.code = "LINK_ENDED", .place = "", .message = "the controller ended the stream", .next = ""});
}

}  // namespace

void LinkHub::Message(uint64_t seq, ControllerSays message, Nanos received) {
  std::lock_guard lock(listener_mutex_);
  if (listener_ != nullptr) listener_->OnMessage(number_, seq, std::move(message), received);
}

void LinkHub::BadMessage(uint64_t seq, PhaseKey key, absl::Status status) {
  std::lock_guard lock(listener_mutex_);
  if (listener_ != nullptr) listener_->OnBadMessage(number_, seq, std::move(key), std::move(status));
}

void LinkHub::Ack(uint64_t committed, absl::Status error) {
  std::lock_guard lock(listener_mutex_);
  if (listener_ != nullptr) listener_->OnAck(number_, committed, std::move(error));
}

void LinkHub::Lost(const absl::Status& why) {
  std::lock_guard lock(listener_mutex_);
  if (listener_ != nullptr) listener_->OnLost(number_, AtPlace(why, place_));
  listener_ = nullptr;
}

void LinkHub::Cut() {
  std::lock_guard lock(listener_mutex_);
  listener_ = nullptr;
}

void LinkHub::CallBegins() {
  std::lock_guard lock(calls_mutex_);
  ++calls_;
}

void LinkHub::CallEnds() {
  std::lock_guard lock(calls_mutex_);
  --calls_;
  ended_.notify_all();
}

bool LinkHub::WaitForCalls(Nanos timeout) {
  std::unique_lock lock(calls_mutex_);
  return ended_.wait_for(lock, std::chrono::nanoseconds(timeout), [this] { return calls_ == 0; });
}

template <typename Out, typename In>
void Call<Out, In>::OnDone(const grpc::Status& status) {
  hub_->Lost(status.ok() ? Ended() : FromGrpc(status));
  const std::shared_ptr<LinkHub> hub = hub_;
  self_.reset();  // may delete this
  hub->CallEnds();
}

ControlCall::ControlCall(std::shared_ptr<LinkHub> hub) : Call(std::move(hub), {.messages = 256, .bytes = 4 << 20}) {}

void ControlCall::Begin(v1::AgentLink::Stub& stub, const Hello& hello) {
  stub.async()->Control(&context_, this);
  Call::Begin();
  Push(ToWire(hello));
}

void ControlCall::OnIn(const v1::ControllerMessage& message, Nanos received) {
  if (absl::Status valid = ValidateMessage(message); !valid.ok()) {
    return hub_->BadMessage(message.seq(), RawKeyOf(message), std::move(valid));
  }
  auto decoded = FromWire(message);
  if (!decoded.ok()) return hub_->BadMessage(message.seq(), RawKeyOf(message), decoded.status());
  hub_->Message(message.seq(), *std::move(decoded), received);
}

ReportCall::ReportCall(std::shared_ptr<LinkHub> hub, uint64_t link_id)
    : Call(std::move(hub), {.messages = 256, .bytes = 32 << 20}), link_id_(link_id) {}

void ReportCall::Begin(v1::AgentLink::Stub& stub) {
  stub.async()->Report(&context_, this);
  Call::Begin();
}

void ReportCall::OnIn(const v1::ReportAck& ack, Nanos) {
  if (absl::Status valid = ValidateMessage(ack); !valid.ok()) return hub_->Ack(0, std::move(valid));
  hub_->Ack(ack.committed(), ack.has_error() ? FromProto(ack.error()) : absl::OkStatus());
}

}  // namespace muster::agent
