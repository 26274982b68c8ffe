#include "controller/fleet/link_streams.h"

#include <fmt/format.h>

#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/wire/codec.h"
#include "common/wire/rules.h"
#include "controller/fleet/link_codec.h"

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
  if (link_ != 0) {
    hub_.Lost(link_, AtPlace(why, "agent " + agent_), /*at_once=*/false);
  } else {
    Close(why, /*at_once=*/false);
  }
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
    Log(LogLevel::kWarning, "{}", FormatError(status));
    Fail(status);
    return false;
  }
  hello->insecure_tcp = peer_.insecure_tcp();
  agent_ = hello->agent_id;
  auto self = std::static_pointer_cast<ControlStream>(shared_from_this());
  LinkHub::Admitted admitted = hub_.OnHello(self, *hello, received);
  const absl::Status refusal = admitted.accepted ? absl::OkStatus() : FromProto(admitted.reply.hello_reply().error());
  if (admitted.accepted) link_ = admitted.reply.hello_reply().link_id();
  Push(std::move(admitted.reply));
  if (link_ != 0) hub_.OnGreeted(link_);
  // The refusal is in the reply; the stream then ends without an error of its own.
  if (!refusal.ok()) Close(absl::OkStatus(), /*at_once=*/false);
  return refusal.ok();
}

void ControlStream::OnMessage(const v1::AgentMessage& message, Nanos received) {
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
  if (message.has_beat()) {
    const BeatInfo beat = DecodeBeat(message.beat());
    v1::ControllerMessage reply;
    reply.mutable_beat_reply()->set_seq(beat.seq);
    reply.mutable_beat_reply()->set_t1(beat.t1);
    reply.mutable_beat_reply()->set_t2(received);
    const Nanos t3 = SteadyClock::Get().Now();
    reply.mutable_beat_reply()->set_t3(t3);
    const bool sent = Push(std::move(reply));
    hub_.OnBeat(agent_, link_, beat, received, t3, std::move(ticket));
    if (!sent) {
      return Fail(
          MakeError(absl::StatusCode::kUnavailable,
                    {.code = "LINK_STUCK", .place = "Control", .message = "the agent takes no answers", .next = {}}));
    }
  } else {
    absl::StatusOr<AgentSays> says = DecodeMessage(message);
    if (!says.ok()) return Fail(says.status());
    if (!hub_.Deliver({.agent = agent_, .says = std::move(*says), .ticket = std::move(ticket)})) {
      return Fail(MakeError(absl::StatusCode::kResourceExhausted, {.code = "CONTROLLER_OVERLOADED",
                                                                   .place = "Control",
                                                                   .message = "the run loop takes no more events",
                                                                   .next = {}}));
    }
  }
  Read();
}

void ControlStream::OnOver() {
  if (link_ == 0) {
    // gRPC does not say which: the peer went away, or sent a message beyond the limit of 16 MiB.
    if (!over_.exchange(true) && agent_.empty()) {
      Log(LogLevel::kInfo, "link of {} refused: it ended, or sent what cannot be read, before its Hello",
          peer_.address);
    }
    return;
  }
  hub_.Lost(link_,
            MakeError(absl::StatusCode::kUnavailable, {.code = "LINK_BROKEN",
                                                       .place = "agent " + agent_,
                                                       .message = "its connection has ended (Control)",
                                                       .next = "Look at the agent's log and whether it still runs."}),
            /*at_once=*/true);
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
  v1::ReportAck ack;
  *ack.mutable_error() = ToProto(why);
  Push(std::move(ack));
  Close(why, /*at_once=*/false);
}

void ReportStream::Fail(const absl::Status& why) {
  Refuse(why);
  if (link_ != 0) hub_.Lost(link_, AtPlace(why, "agent " + agent_), /*at_once=*/false);
}

void ReportStream::OnMessage(const v1::ReportMessage& message, Nanos) {
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
  hub_.OnReportSequence(agent_, report->sequence);
  if (!hub_.Deliver({.agent = agent_, .says = std::move(*report), .ticket = TakeTicket()})) {
    return Fail(MakeError(absl::StatusCode::kResourceExhausted, {.code = "CONTROLLER_OVERLOADED",
                                                                 .place = "Report",
                                                                 .message = "the run loop takes no more events",
                                                                 .next = {}}));
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
  hub_.Lost(link_,
            MakeError(absl::StatusCode::kUnavailable, {.code = "LINK_BROKEN",
                                                       .place = "agent " + agent_,
                                                       .message = "its connection has ended (Report)",
                                                       .next = "Look at the agent's log and whether it still runs."}),
            /*at_once=*/true);
}

}  // namespace muster
