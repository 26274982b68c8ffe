#include "controller/fleet/link_streams.h"

#include <fmt/format.h>

#include "common/base/status.h"
#include "common/wire/codec.h"
#include "common/wire/rules.h"
#include "controller/fleet/link_codec.h"
#include "controller/fleet/receipts.h"
#include "controller/fleet/refusal_log.h"

namespace muster {
namespace {

// Unprocessed Control messages of one agent: a hundred times what any phase needs.
constexpr int kMaxControlTickets = 1024;

absl::Status OutOfOrder(std::string place, std::string message) {
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      {.code = "MESSAGE_OUT_OF_ORDER", .place = std::move(place), .message = std::move(message), .next = {}});
}

// A certificate is worth its own name only.
absl::Status CheckCertified(const CallPeer& peer, const std::string& agent) {
  if (!peer.who || peer.who->name == agent) return absl::OkStatus();
  return MakeError(absl::StatusCode::kPermissionDenied,
                   {.code = "AGENT_ID_CERTIFIED",
                    .place = fmt::format("agent {} at {}", agent, peer.address),
                    .message = fmt::format("its certificate is that of agent {}", peer.who->name),
                    .next = "Leave --id out, or use the certificate made for it."});
}

std::string RefusedAt(const CallPeer& peer, const absl::Status& why) {
  return fmt::format("link of {} refused: {}", peer.address, FormatError(why));
}

absl::Status Broken(const std::string& agent, const char* stream) {
  return MakeError(absl::StatusCode::kUnavailable, {.code = "LINK_BROKEN",
                                                    .place = "agent " + agent,
                                                    .message = fmt::format("its connection has ended ({})", stream),
                                                    .next = "Look at the agent's log and whether it still runs."});
}

}  // namespace

// ---- Control

std::shared_ptr<void> ControlStream::TakeTicket() {
  if (tickets_->fetch_add(1) >= kMaxControlTickets) {
    tickets_->fetch_sub(1);
    return nullptr;
  }
  // The counter lives as long as its tickets; the stream need not.
  return {tickets_.get(), [counter = tickets_](void*) { counter->fetch_sub(1); }};
}

void ControlStream::Fail(const absl::Status& why) {
  LogRefusal(RefusedAt(peer_, why));
  if (link_ != 0) {
    hub_.Lost(agent_, link_, AtPlace(why, "agent " + agent_), /*at_once=*/false);
  } else {
    Close(why, /*at_once=*/false);
  }
}

void ControlStream::TimeOut(const absl::Status& why) {
  over_ = true;
  LogRefusal(RefusedAt(peer_, why));
  Close(why, /*at_once=*/true);
}

bool ControlStream::Greet(const v1::AgentMessage& message, Nanos received) {
  if (!message.has_hello()) {
    Fail(OutOfOrder("Control", "the first message must be Hello"));
    return false;
  }
  auto hello = DecodeHello(message.hello());
  if (!hello.ok()) {
    Fail(hello.status());
    return false;
  }
  if (absl::Status status = CheckCertified(peer_, hello->agent_id); !status.ok()) {
    Fail(status);
    return false;
  }
  hello->insecure_tcp = peer_.insecure_tcp();
  agent_ = hello->agent_id;
  return hub_.Greet(std::static_pointer_cast<ControlStream>(shared_from_this()), *hello, received, link_);
}

void ControlStream::OnMessage(const v1::AgentMessage& message, Nanos received) {
  NoteReceipt(peer_.address);
  if (absl::Status status = ValidateMessage(message); !status.ok()) return Fail(status);
  if (link_ == 0) {
    if (Greet(message, received)) Read();
    return;
  }
  std::shared_ptr<void> ticket = TakeTicket();
  if (ticket == nullptr) {
    return Fail(MakeError(absl::StatusCode::kResourceExhausted,
                          {.code = "LINK_FLOODED",
                           .place = "Control",
                           .message = fmt::format("more than {} messages wait to be processed", kMaxControlTickets),
                           .next = {}}));
  }
  if (message.has_leaving()) {
    const absl::Status why = message.leaving().has_error() ? FromProto(message.leaving().error()) : absl::OkStatus();
    return hub_.Lost(
        agent_, link_,
        MakeError(absl::StatusCode::kUnavailable, {.code = "AGENT_LEFT",
                                                   .place = "agent " + agent_,
                                                   .message = "it has ended its session: " + FormatError(why),
                                                   .next = "Look at the agent's log."}),
        /*at_once=*/false);
  }
  if (message.has_beat()) {
    if (!Answer(DecodeBeat(message.beat()), received, std::move(ticket))) return;
  } else {
    absl::StatusOr<AgentSays> says = DecodeMessage(message);
    if (!says.ok()) return Fail(says.status());
    const absl::Status taken = hub_.OnSaid(agent_, link_, message.seq(), std::move(*says), std::move(ticket));
    const std::string code = GetErrorInfo(taken).code;
    if (code == "LINK_REPLACED") return;
    if (code == "CONTROL_GAP") return hub_.Down(link_, AtPlace(taken, "agent " + agent_));
    if (!taken.ok()) return Fail(taken);
  }
  Read();
}

// False: the link is down.
bool ControlStream::Answer(const BeatInfo& beat, Nanos received, std::shared_ptr<void> ticket) {
  v1::ControllerMessage message;
  v1::BeatReply& reply = *message.mutable_beat_reply();
  reply.set_seq(beat.seq);
  reply.set_t1(beat.t1);
  reply.set_t2(received);
  const auto [heard, committed] = hub_.Acknowledged(agent_);
  reply.set_heard(heard);
  reply.set_committed(committed);
  const Nanos t3 = SteadyClock::Get().Now();
  reply.set_t3(t3);
  const bool sent = Push(std::move(message));
  hub_.OnBeat(agent_, link_, beat, received, t3, std::move(ticket));
  if (!sent) {
    hub_.Down(link_, MakeError(absl::StatusCode::kUnavailable, {.code = "LINK_STUCK",
                                                                .place = "agent " + agent_,
                                                                .message = "the agent takes no answers",
                                                                .next = {}}));
  }
  return sent;
}

void ControlStream::OnOver() {
  if (link_ == 0) {
    // gRPC does not say which here: the peer went away, or sent a message beyond the limit (service/grpc_log.h).
    if (!over_.exchange(true) && agent_.empty()) {
      LogRefusal(
          fmt::format("link of {} refused: it ended, or sent what cannot be read, before its Hello", peer_.address));
    }
    return;
  }
  hub_.Down(link_, Broken(agent_, "Control"));
}

// ---- Report

std::shared_ptr<void> ReportStream::TakeTicket() {
  {
    std::lock_guard lock(window_);
    ++tickets_;
  }
  auto self = std::static_pointer_cast<ReportStream>(shared_from_this());
  return {this, [self](void*) { self->TicketBack(); }};
}

void ReportStream::TicketBack() {
  {
    std::lock_guard lock(window_);
    --tickets_;
    if (!paused_ || tickets_ >= kWindow) return;
    paused_ = false;
  }
  Read();
}

void ReportStream::Refuse(const absl::Status& why) {
  LogRefusal(fmt::format("reports of {} refused: {}", peer_.address, FormatError(why)));
  v1::ReportAck ack;
  *ack.mutable_error() = ToProto(why);
  Push(std::move(ack));
  Close(why, /*at_once=*/false);
}

void ReportStream::Fail(const absl::Status& why) {
  Refuse(why);
  if (link_ != 0) hub_.Lost(agent_, link_, AtPlace(why, "agent " + agent_), /*at_once=*/false);
}

void ReportStream::OnMessage(const v1::ReportMessage& message, Nanos) {
  NoteReceipt(peer_.address);
  if (absl::Status status = ValidateMessage(message); !status.ok()) return Fail(status);
  if (link_ == 0) {
    auto self = std::static_pointer_cast<ReportStream>(shared_from_this());
    agent_ = hub_.AdoptReport(message.link_id(), self, peer_);
    if (agent_.empty()) {
      return Refuse(MakeError(absl::StatusCode::kNotFound,
                              {.code = "LINK_UNKNOWN",
                               .place = "Report",
                               .message = fmt::format("link {:x} is not there, or reports already", message.link_id()),
                               .next = "Open Control first and present the link id of its HelloReply."}));
    }
    link_ = message.link_id();
  }
  if (message.link_id() != link_) return Fail(OutOfOrder("Report", "the link id has changed within the stream"));
  absl::StatusOr<AgentReport> report = DecodeReport(message);
  if (!report.ok()) return Fail(AtPlace(report.status(), fmt::format("report {}", message.sequence())));
  report->bytes = message.SerializeAsString();
  if (absl::Status taken = hub_.OnReport(agent_, link_, std::move(*report), TakeTicket()); !taken.ok()) {
    if (GetErrorInfo(taken).code == "LINK_REPLACED") return;
    return Fail(taken);
  }
  {
    std::lock_guard lock(window_);
    if (tickets_ >= kWindow) {
      paused_ = true;
      return;
    }
  }
  Read();
}

void ReportStream::OnOver() {
  if (link_ == 0) return;
  hub_.Down(link_, Broken(agent_, "Report"));
}

}  // namespace muster
