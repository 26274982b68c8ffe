#include "controller/fleet/link_hub.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/logging.h"
#include "common/base/rng.h"
#include "common/base/status.h"
#include "common/wire/codec.h"
#include "controller/fleet/link_codec.h"
#include "controller/fleet/link_streams.h"
#include "controller/fleet/refusal_log.h"

namespace muster {
namespace {

constexpr Nanos kHangUp = 500 * kMillisecond;  // for agents to end their streams after a Goodbye

FleetOptions WithEpoch(FleetOptions options, uint64_t epoch) {
  options.epoch = epoch;
  return options;
}

absl::Status Overloaded(const char* stream) {
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      {.code = "CONTROLLER_OVERLOADED", .place = stream, .message = "the run loop takes no more events", .next = {}});
}

}  // namespace

LinkHub::LinkHub(FleetOptions options, uint64_t epoch, const Clock& clock)
    : clock_(clock), epoch_(epoch), fleet_(WithEpoch(std::move(options), epoch)) {}

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
  v1::HelloReply& reply = *out.messages.emplace_back().mutable_hello_reply();
  reply.set_build(fleet_.options().build);
  reply.set_controller_epoch(epoch_);
  bool collecting = false;
  std::optional<uint64_t> handed_over;
  {
    std::lock_guard lock(sink_mutex_);
    collecting = sink_ != nullptr;
    if (wants_held_) handed_over = wants_held_(hello);
  }
  Link replaced;
  uint64_t link = 0;
  Welcome welcome;
  {
    std::lock_guard lock(mutex_);
    std::erase_if(greeting_, [&](const auto& waiting) { return waiting.expired() || waiting.lock() == stream; });
    uint64_t seed = epoch_ + ++next_link_;
    link = SplitMix64(seed) | 1;  // not to be mistaken for that of another controller
    absl::StatusOr<Welcome> admitted = fleet_.Admit(hello, link, now, collecting, handed_over);
    if (!admitted.ok()) {
      ++changes_;
      changed_.notify_all();
      *reply.mutable_error() = ToProto(admitted.status());
      return out;
    }
    welcome = *std::move(admitted);
    for (auto at = links_.begin(); at != links_.end();) {
      if (at->second.agent == hello.agent_id) {
        replaced = std::move(at->second);
        at = links_.erase(at);
      } else {
        ++at;
      }
    }
    links_[link] = {.id = link, .agent = hello.agent_id, .control = stream};
  }
  out.link = link;
  reply.set_api(welcome.member.api);
  reply.set_link_id(link);
  reply.set_lease_ns(fleet_.options().lease);
  reply.set_last_committed(welcome.member.committed);
  reply.set_last_received(welcome.member.last_sequence);
  reply.set_resumed(welcome.resumed);
  reply.set_wants_reports(welcome.wants_reports);
  reply.set_heard(welcome.heard);
  for (const auto& command : welcome.again) out.messages.push_back(EncodeCommand(command.seq, command.message));
  if (welcome.ended) Deliver({.agent = hello.agent_id, .says = AgentGone{*welcome.ended}, .ticket = nullptr});
  if (welcome.wants_reports) {
    Deliver({.agent = hello.agent_id, .says = AgentReturned{welcome.reports}, .ticket = nullptr});
  }
  if (welcome.resumed) {
    Deliver({.agent = hello.agent_id, .says = LinkBack{welcome.down, welcome.reports}, .ticket = nullptr});
  }
  out.replaced = std::move(replaced);
  return out;
}

bool LinkHub::Greet(const std::shared_ptr<ControlStream>& stream, const HelloInfo& hello, Nanos now,
                    std::atomic<uint64_t>& link) {
  absl::Status refusal;
  Link replaced;
  {
    // Commands that come while the Hello is answered follow those that are said again.
    std::lock_guard order(order_);
    Admitted admitted = OnHello(stream, hello, now);
    link = admitted.link;
    replaced = std::move(admitted.replaced);
    if (admitted.link == 0) refusal = FromProto(admitted.messages.front().hello_reply().error());
    for (v1::ControllerMessage& message : admitted.messages) stream->Push(std::move(message));
    std::lock_guard lock(mutex_);
    const auto found = links_.find(link);
    if (found != links_.end()) found->second.greeted = true;
    ++changes_;
    changed_.notify_all();
  }
  if (replaced.control != nullptr) {
    CloseStreams(MakeError(absl::StatusCode::kUnavailable, {.code = "LINK_REPLACED",
                                                            .place = "agent " + hello.agent_id,
                                                            .message = "another link has taken this one's place",
                                                            .next = {}}),
                 /*at_once=*/true, replaced);
  }
  // The refusal is in the reply; the stream then ends without an error of its own.
  if (!refusal.ok()) {
    LogRefusal(fmt::format("link of {} refused: {}", stream->address(), FormatError(refusal)));
    stream->Close(absl::OkStatus(), /*at_once=*/false);
  }
  return refusal.ok();
}

void LinkHub::OnBeat(const std::string& agent, uint64_t link, const BeatInfo& beat, Nanos t2, Nanos t3,
                     std::shared_ptr<void> ticket) {
  std::vector<std::string> notes;
  ClockReading reading;
  absl::Status heard;
  {
    std::lock_guard lock(mutex_);
    const Member* member = fleet_.Find(agent);
    if (member == nullptr || member->link_id != link || !member->up()) return;
    heard = fleet_.Acknowledge(agent, link, beat.heard);
    notes = fleet_.OnBeat(agent, link, beat, t2, t3);
    reading = member->clock;
  }
  if (!heard.ok()) return Lost(agent, link, AtPlace(heard, "agent " + agent), /*at_once=*/false);
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

absl::Status LinkHub::OnSaid(const std::string& agent, uint64_t link, uint64_t seq, AgentSays says,
                             std::shared_ptr<void> ticket) {
  std::lock_guard order(order_);
  absl::StatusOr<bool> fresh = false;
  {
    std::lock_guard lock(mutex_);
    fresh = fleet_.Hear(agent, link, seq);
  }
  if (!fresh.ok()) return fresh.status();
  if (!*fresh || Deliver({.agent = agent, .says = std::move(says), .ticket = std::move(ticket)})) {
    return absl::OkStatus();
  }
  return Overloaded("Control");
}

absl::Status LinkHub::OnReport(const std::string& agent, uint64_t link, AgentReport report,
                               std::shared_ptr<void> ticket) {
  std::lock_guard order(order_);
  bool current = false;
  {
    std::lock_guard lock(mutex_);
    current = fleet_.OnReport(agent, link, report.sequence);
  }
  if (!current) {
    return MakeError(
        absl::StatusCode::kNotFound,
        {.code = "LINK_REPLACED", .place = "Report", .message = "another link has taken this one's place", .next = {}});
  }
  const uint64_t sequence = report.sequence;
  bool taken = true;
  bool wanted = false;
  {
    std::lock_guard lock(sink_mutex_);
    wanted = sink_ != nullptr;
    if (wanted) taken = sink_->OnAgentEvent({.agent = agent, .says = std::move(report), .ticket = std::move(ticket)});
  }
  // No run is there that could want it: the agent need not keep it.
  if (!wanted) Acknowledge(agent, sequence);
  return taken ? absl::OkStatus() : Overloaded("Report");
}

std::pair<uint64_t, uint64_t> LinkHub::Acknowledged(const std::string& agent) {
  std::lock_guard lock(mutex_);
  const Member* member = fleet_.Find(agent);
  return {fleet_.HeardOf(agent), member == nullptr ? 0 : member->committed};
}

bool LinkHub::Deliver(AgentEvent event) {
  std::lock_guard lock(sink_mutex_);
  return sink_ == nullptr || sink_->OnAgentEvent(std::move(event));
}

void LinkHub::CloseStreams(const absl::Status& why, bool at_once, const Link& link) {
  if (link.report) link.report->Close(why, at_once);
  if (link.control) link.control->Close(why, at_once);
}

void LinkHub::Down(uint64_t link, const absl::Status& why) {
  Link over;
  {
    std::lock_guard lock(mutex_);
    const auto found = links_.find(link);
    if (found == links_.end()) return;
    over = std::move(found->second);
    links_.erase(found);
    fleet_.LinkDown(over.agent, link, clock_.Now());
    ++changes_;
    changed_.notify_all();
  }
  const std::string text =
      fmt::format("agent {} at {}: link down: {}", over.agent, over.control->address(), FormatError(why));
  if (GetErrorInfo(why).code == "LINK_BROKEN") {
    Log(LogLevel::kInfo, "{}", text);
  } else {
    LogRefusal(text);
  }
  Deliver({.agent = over.agent, .says = LinkDown{why}, .ticket = nullptr});
  CloseStreams(why, /*at_once=*/true, over);
}

void LinkHub::Lost(const std::string& agent, uint64_t link, const absl::Status& why, bool at_once) {
  Link over;
  {
    std::lock_guard lock(mutex_);
    if (!fleet_.Remove(agent, link)) return;
    if (const auto found = links_.find(link); found != links_.end()) {
      over = std::move(found->second);
      links_.erase(found);
    }
    ++changes_;
    changed_.notify_all();
  }
  Log(LogLevel::kInfo, "agent {} is gone: {}", agent, FormatError(why));
  // A full sink only loses that an agent is gone; whoever waits for it has a deadline.
  Deliver({.agent = agent, .says = AgentGone{why}, .ticket = nullptr});
  CloseStreams(why, at_once, over);
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

std::vector<Member> LinkHub::Everybody() {
  std::lock_guard lock(mutex_);
  std::vector<Member> members = fleet_.Members();
  std::erase_if(members, [&](const Member& member) {
    const auto found = links_.find(member.link_id);
    return member.up() && (found == links_.end() || !found->second.greeted);
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

void LinkHub::SetWantsHeld(WantsHeld wants) {
  std::lock_guard lock(sink_mutex_);
  wants_held_ = std::move(wants);
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
  absl::StatusOr<uint64_t> seq = uint64_t{0};
  std::shared_ptr<ControlStream> control;
  bool pushed = true;
  {
    std::lock_guard order(order_);
    {
      std::lock_guard lock(mutex_);
      seq = fleet_.Command(agent, command);
    }
    control = ControlOf(agent);
    // Without a link it is kept and said over the next one.
    if (seq.ok() && control != nullptr) pushed = control->Push(EncodeCommand(*seq, command));
  }
  if (GetErrorInfo(seq.status()).code == "CONTROL_LOG_FULL")
    return Drop(agent, AtPlace(seq.status(), "agent " + agent));
  if (pushed) return;
  Down(LinkOf(agent),
       MakeError(
           absl::StatusCode::kUnavailable,
           {.code = "LINK_STUCK", .place = "agent " + agent, .message = "the agent takes no commands", .next = {}}));
}

void LinkHub::Acknowledge(const std::string& agent, uint64_t sequence) {
  {
    std::lock_guard lock(mutex_);
    fleet_.OnCommitted(agent, sequence);
  }
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
  Lost(agent, link, why, /*at_once=*/false);
}

void LinkHub::Drop(const std::string& agent, const absl::Status& why) {
  Lost(agent, LinkOf(agent), why, /*at_once=*/true);
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
    stream->TimeOut(
        MakeError(absl::StatusCode::kDeadlineExceeded,
                  {.code = "GREETING_TIMEOUT", .place = "Control", .message = "no Hello came within 10s", .next = {}}));
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
