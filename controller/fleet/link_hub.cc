#include "controller/fleet/link_hub.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/logging.h"
#include "common/base/rng.h"
#include "common/base/status.h"
#include "common/wire/codec.h"
#include "controller/fleet/link_codec.h"
#include "controller/fleet/link_streams.h"

namespace muster {
namespace {

constexpr Nanos kHangUp = 500 * kMillisecond;  // for agents to end their streams after a Goodbye

}  // namespace

LinkHub::LinkHub(FleetOptions options, uint64_t epoch, const Clock& clock)
    : clock_(clock), epoch_(epoch), fleet_(std::move(options)) {}

LinkHub::~LinkHub() = default;

grpc::ServerBidiReactor<v1::AgentMessage, v1::ControllerMessage>* LinkHub::NewControl(
    grpc::CallbackServerContext* context) {
  auto stream = std::make_shared<ControlStream>(context, *this, clock_.Now());
  bool closed = false;
  {
    std::lock_guard lock(mutex_);
    ++streams_;
    closed = closed_;
    std::erase_if(greeting_, [](const auto& waiting) { return waiting.expired(); });
    greeting_.push_back(stream);
  }
  stream->Begin([this] { StreamDone(); });
  if (closed) stream->Close(absl::UnavailableError("the controller is ending"), /*at_once=*/true);
  return stream.get();
}

grpc::ServerBidiReactor<v1::ReportMessage, v1::ReportAck>* LinkHub::NewReport(grpc::CallbackServerContext* context) {
  auto stream = std::make_shared<ReportStream>(context, *this);
  bool closed = false;
  {
    std::lock_guard lock(mutex_);
    ++streams_;
    closed = closed_;
  }
  stream->Begin([this] { StreamDone(); });
  if (closed) stream->Close(absl::UnavailableError("the controller is ending"), /*at_once=*/true);
  return stream.get();
}

void LinkHub::StreamDone() {
  std::lock_guard lock(mutex_);
  --streams_;
  ++changes_;
  // Under the lock: whoever waits may destroy this hub as soon as it sees the last stream gone.
  changed_.notify_all();
}

LinkHub::Admitted LinkHub::OnHello(const std::shared_ptr<ControlStream>& stream, const HelloInfo& hello, Nanos now) {
  Admitted out;
  v1::HelloReply& reply = *out.reply.mutable_hello_reply();
  std::lock_guard lock(mutex_);
  std::erase_if(greeting_, [&](const auto& waiting) { return waiting.expired() || waiting.lock() == stream; });
  uint64_t seed = epoch_ + ++next_link_;
  const uint64_t link = SplitMix64(seed) | 1;  // not to be mistaken for that of another controller
  const absl::StatusOr<Member> member = fleet_.Admit(hello, link, now);
  reply.set_build(fleet_.options().build);
  reply.set_controller_epoch(epoch_);
  if (!member.ok()) {
    ++changes_;
    changed_.notify_all();
    *reply.mutable_error() = ToProto(member.status());
    return out;
  }
  links_[link] = {.id = link, .agent = hello.agent_id, .control = stream};
  reply.set_api(member->api);
  reply.set_link_id(link);
  reply.set_lease_ns(fleet_.options().lease);
  out.accepted = true;
  return out;
}

void LinkHub::OnGreeted(uint64_t link) {
  std::lock_guard lock(mutex_);
  const auto found = links_.find(link);
  if (found != links_.end()) found->second.greeted = true;
  ++changes_;
  changed_.notify_all();
}

void LinkHub::OnBeat(const std::string& agent, uint64_t link, const BeatInfo& beat, Nanos t2, Nanos t3,
                     std::shared_ptr<void> ticket) {
  std::vector<std::string> notes;
  ClockReading reading;
  {
    std::lock_guard lock(mutex_);
    notes = fleet_.OnBeat(agent, link, beat, t2, t3);
    const Member* member = fleet_.Find(agent);
    if (member == nullptr) return;
    reading = member->clock;
  }
  Deliver({.agent = agent, .says = ClockNews{reading}, .ticket = std::move(ticket)});
  if (notes.empty()) return;
  std::lock_guard lock(sink_mutex_);
  for (const std::string& note : notes) {
    Log(LogLevel::kWarning, "{}", note);
    if (sink_ != nullptr) sink_->OnFleetNote(note);
  }
}

std::string LinkHub::AdoptReport(uint64_t link, const std::shared_ptr<ReportStream>& stream, const CallPeer& peer) {
  std::lock_guard lock(mutex_);
  const auto found = links_.find(link);
  if (found == links_.end() || found->second.report != nullptr) return {};
  if (peer.who && peer.who->name != found->second.agent) return {};
  found->second.report = stream;
  return found->second.agent;
}

void LinkHub::OnReportSequence(const std::string& agent, uint64_t sequence) {
  std::lock_guard lock(mutex_);
  fleet_.OnReport(agent, sequence);
}

bool LinkHub::Deliver(AgentEvent event) {
  std::lock_guard lock(sink_mutex_);
  return sink_ == nullptr || sink_->OnAgentEvent(std::move(event));
}

void LinkHub::Lost(uint64_t link, const absl::Status& why, bool at_once) {
  Link over;
  {
    std::lock_guard lock(mutex_);
    const auto found = links_.find(link);
    if (found == links_.end()) return;
    over = std::move(found->second);
    links_.erase(found);
    fleet_.Remove(over.agent, link);
    ++changes_;
    changed_.notify_all();
  }
  Log(LogLevel::kDebug, "agent {} is gone: {}", over.agent, FormatError(why));
  // A full sink only loses that an agent is gone; whoever waits for it has a deadline.
  Deliver({.agent = over.agent, .says = AgentGone{why}, .ticket = nullptr});
  if (over.report) over.report->Close(why, at_once);
  over.control->Close(why, at_once);
}

std::vector<Member> LinkHub::Members() {
  std::lock_guard lock(mutex_);
  std::vector<Member> members = fleet_.Members();
  std::erase_if(members, [&](const Member& member) {
    const auto found = links_.find(member.link_id);
    return found == links_.end() || !found->second.greeted;
  });
  return members;
}

std::vector<std::string> LinkHub::Refusals() {
  std::lock_guard lock(mutex_);
  return fleet_.Refusals();
}

void LinkHub::SetSink(AgentSink* sink) {
  std::lock_guard lock(sink_mutex_);
  sink_ = sink;
}

uint64_t LinkHub::LinkOf(const std::string& agent) {
  std::lock_guard lock(mutex_);
  const Member* member = fleet_.Find(agent);
  return member == nullptr ? 0 : member->link_id;
}

std::shared_ptr<ControlStream> LinkHub::ControlOf(const std::string& agent) {
  std::lock_guard lock(mutex_);
  const Member* member = fleet_.Find(agent);
  if (member == nullptr) return nullptr;
  const auto found = links_.find(member->link_id);
  return found == links_.end() ? nullptr : found->second.control;
}

std::shared_ptr<ReportStream> LinkHub::ReportOf(const std::string& agent) {
  std::lock_guard lock(mutex_);
  const Member* member = fleet_.Find(agent);
  if (member == nullptr) return nullptr;
  const auto found = links_.find(member->link_id);
  return found == links_.end() ? nullptr : found->second.report;
}

void LinkHub::Send(const std::string& agent, AgentCommand command) {
  const auto control = ControlOf(agent);
  if (control == nullptr || control->Push(EncodeCommand(command))) return;
  Drop(agent,
       MakeError(
           absl::StatusCode::kUnavailable,
           {.code = "LINK_STUCK", .place = "agent " + agent, .message = "the agent takes no commands", .next = {}}));
}

void LinkHub::Acknowledge(const std::string& agent, uint64_t sequence) {
  const auto report = ReportOf(agent);
  if (report == nullptr) return;
  v1::ReportAck ack;
  ack.set_committed(sequence);
  // Acknowledgements are cumulative: one that finds the queue full is covered by the next.
  report->Push(std::move(ack));
}

void LinkHub::RefuseReports(const std::string& agent, const absl::Status& why) {
  const uint64_t link = LinkOf(agent);
  if (const auto report = ReportOf(agent)) report->Refuse(why);
  Lost(link, why, /*at_once=*/false);
}

void LinkHub::Drop(const std::string& agent, const absl::Status& why) {
  Lost(LinkOf(agent), why, /*at_once=*/true);
}

void LinkHub::CheckLeases() {
  std::vector<std::string> expired;
  std::vector<std::shared_ptr<ControlStream>> mute;
  const Nanos now = clock_.Now();
  Nanos lease = 0;
  {
    std::lock_guard lock(mutex_);
    expired = fleet_.Expired(now);
    lease = fleet_.options().lease;
    for (const auto& waiting : greeting_) {
      auto stream = waiting.lock();
      if (stream != nullptr && stream->Ungreeted(now)) mute.push_back(std::move(stream));
    }
    std::erase_if(greeting_, [&](const auto& waiting) {
      return std::find(mute.begin(), mute.end(), waiting.lock()) != mute.end();
    });
  }
  for (const std::string& agent : expired) {
    Drop(agent, MakeError(absl::StatusCode::kUnavailable,
                          {.code = "LEASE_ENDED",
                           .place = "agent " + agent,
                           .message = "no Beat came within its lease of " + FormatDuration(lease),
                           .next = "The agent or its host hangs."}));
  }
  for (const auto& stream : mute) {
    stream->Close(
        MakeError(absl::StatusCode::kDeadlineExceeded,
                  {.code = "GREETING_TIMEOUT", .place = "Control", .message = "no Hello came within 10s", .next = {}}),
        /*at_once=*/true);
  }
}

void LinkHub::WaitForChange(Nanos timeout) {
  std::unique_lock lock(mutex_);
  const uint64_t before = changes_;
  changed_.wait_for(lock, std::chrono::nanoseconds(timeout), [&] { return changes_ != before; });
}

bool LinkHub::GoodbyeAll(const std::string& reason, Nanos timeout) {
  std::vector<Link> over;
  std::vector<std::weak_ptr<ControlStream>> greeting;
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    for (auto& [id, link] : links_) {
      fleet_.Remove(link.agent, id);
      over.push_back(std::move(link));
    }
    links_.clear();
    greeting = std::move(greeting_);
    greeting_.clear();
  }
  v1::ControllerMessage goodbye;
  goodbye.mutable_goodbye()->set_reason(reason);
  for (const Link& link : over) {
    link.control->Push(goodbye);
    link.control->Close(absl::OkStatus(), /*at_once=*/false);
  }
  for (const auto& waiting : greeting) {
    if (auto stream = waiting.lock()) stream->Close(absl::OkStatus(), /*at_once=*/true);
  }
  const auto gone = [&] { return streams_ == 0; };
  std::unique_lock lock(mutex_);
  // An agent that hears the Goodbye ends Report itself. Ended from here at the same time, it could be seen first, and
  // an end without a Goodbye is a lost link.
  if (changed_.wait_for(lock, std::chrono::nanoseconds(std::min(timeout, kHangUp)), gone)) return true;
  lock.unlock();
  for (const Link& link : over) {
    if (link.report) link.report->Close(absl::OkStatus(), /*at_once=*/false);
  }
  lock.lock();
  return changed_.wait_for(lock, std::chrono::nanoseconds(timeout), gone);
}

}  // namespace muster
