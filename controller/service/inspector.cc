#include "controller/service/inspector.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "common/base/queue.h"
#include "common/base/status.h"
#include "controller/run/target_needs.h"

namespace muster {
namespace {

class AnswerSink final : public AgentSink {
 public:
  bool OnAgentEvent(AgentEvent event) override {
    const bool wanted =
        std::holds_alternative<InspectDone>(event.says) || std::holds_alternative<AgentGone>(event.says);
    event.ticket.reset();
    return !wanted || answers_.TryPush(std::move(event));
  }
  void OnFleetNote(const std::string&) override {}
  std::optional<AgentEvent> Pop(Nanos timeout) { return answers_.Pop(timeout); }

 private:
  BoundedQueue<AgentEvent> answers_{8'192};
};

std::string Join(const std::map<std::string, const Member*>& agents) {
  std::string text;
  for (const auto& [id, member] : agents) {
    text += fmt::format("{}{} on {}", text.empty() ? "" : ", ", id, member->hello.hostname);
  }
  return text;
}

absl::Status TakeAnswer(const InspectDone& done, const Member& member, const InspectCommand& asked,
                        std::vector<TargetView>& views) {
  if (done.inspections.size() != asked.items.size()) {
    return MakeError(absl::StatusCode::kInternal, {.code = "INSPECT_INCOMPLETE",
                                                   .place = "agent " + member.hello.agent_id,
                                                   .message = fmt::format("it answered for {} of {} targets",
                                                                          done.inspections.size(), asked.items.size()),
                                                   .next = {}});
  }
  for (size_t i = 0; i < done.inspections.size(); ++i) {
    const InspectionInfo& info = done.inspections[i];
    views.push_back({.agent = member.hello.agent_id,
                     .host = member.hello.hostname,
                     .target = asked.items[i].target.name,
                     .place = info.place,
                     .identity = info.identity,
                     .found = info.found,
                     .verdict = info.verdict,
                     .would_write = info.would_write,
                     .size = info.size,
                     .writable = info.writable,
                     .refusal = info.refusal,
                     .notes = info.notes,
                     .probe = info.probe});
  }
  return absl::OkStatus();
}

absl::Status Collect(const InspectCommand& asked, AgentGateway& gateway, AnswerSink& sink, Nanos until,
                     const Clock& clock, std::map<std::string, const Member*>& waiting,
                     std::vector<TargetView>& views) {
  while (!waiting.empty()) {
    const Nanos now = clock.Now();
    if (now >= until) {
      return MakeError(absl::StatusCode::kDeadlineExceeded, {.code = "INSPECT_TIMEOUT",
                                                             .place = "fleet",
                                                             .message = "no answer to Inspect from " + Join(waiting),
                                                             .next = "Look at the agents' logs; a target may hang."});
    }
    const auto event = sink.Pop(std::min<Nanos>(until - now, 100 * kMillisecond));
    gateway.CheckLeases();
    if (!event) continue;
    const auto from = waiting.find(event->agent);
    if (from == waiting.end()) continue;
    if (const auto* gone = std::get_if<AgentGone>(&event->says)) {
      return MakeError(absl::StatusCode::kUnavailable, {.code = "AGENT_LOST",
                                                        .place = "agent " + event->agent,
                                                        .message = FormatError(gone->why),
                                                        .next = "Look at the agent's log."});
    }
    const auto& done = std::get<InspectDone>(event->says);
    if (done.request != asked.request) continue;  // of an inspection that was given up
    MUSTER_RETURN_IF_ERROR(TakeAnswer(done, *from->second, asked, views));
    waiting.erase(from);
  }
  return absl::OkStatus();
}

}  // namespace

InspectCommand InspectionOf(const Plan& plan, uint64_t request) {
  InspectCommand command{.request = request, .items = {}};
  for (const Target& target : plan.targets) {
    TargetNeeds needs = NeedsOf(plan, target.name);
    command.items.push_back({.target = target, .objects = std::move(needs.objects), .writes = needs.writes});
  }
  return command;
}

absl::StatusOr<std::vector<TargetView>> InspectTargets(const InspectCommand& command, AgentGateway& gateway,
                                                       Nanos timeout, const Clock& clock) {
  AnswerSink sink;
  gateway.SetSink(&sink);
  const std::vector<Member> members = gateway.Members();
  std::map<std::string, const Member*> waiting;
  for (const Member& member : members) waiting[member.hello.agent_id] = &member;
  for (const Member& member : members) gateway.Send(member.hello.agent_id, command);
  std::vector<TargetView> views;
  absl::Status status = Collect(command, gateway, sink, clock.Now() + timeout, clock, waiting, views);
  gateway.SetSink(nullptr);
  if (members.empty()) {
    status = MakeError(absl::StatusCode::kUnavailable, {.code = "AGENTS_MISSING",
                                                        .place = "fleet",
                                                        .message = "no agent is there to look",
                                                        .next = "Start an agent."});
  }
  if (!status.ok()) return status;
  std::stable_sort(views.begin(), views.end(),
                   [](const TargetView& a, const TargetView& b) { return a.agent < b.agent; });
  return views;
}

}  // namespace muster
