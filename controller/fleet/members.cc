#include "controller/fleet/members.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/status.h"

namespace muster {
namespace {

constexpr size_t kRefusalsKept = 32;

std::string AgentAt(const HelloInfo& hello) {
  return fmt::format("agent {} on {}", hello.agent_id, hello.hostname);
}

}  // namespace

Fleet::Fleet(FleetOptions options) : options_(std::move(options)) {}

absl::Status Fleet::Check(const HelloInfo& hello) const {
  const std::string place = AgentAt(hello);
  if (hello.api_min == 0 || hello.api_min > hello.api_max) {
    return MakeError(absl::StatusCode::kInvalidArgument,
                     {.code = "HELLO_INVALID",
                      .place = place,
                      .message = fmt::format("API range {}..{} is not a range", hello.api_min, hello.api_max),
                      .next = "Install an agent of the controller's release."});
  }
  if (hello.api_max < options_.api_min || hello.api_min > options_.api_max) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition,
        {.code = "API_VERSION",
         .place = place,
         .message = fmt::format("the agent (build {}) speaks API {}..{}, the controller (build {}) {}..{}", hello.build,
                                hello.api_min, hello.api_max, options_.build, options_.api_min, options_.api_max),
         .next = hello.api_max < options_.api_min ? "Update the agent." : "Update the controller."});
  }
  if (hello.agent_id.empty() || hello.instance == 0) {
    return MakeError(absl::StatusCode::kInvalidArgument, {.code = "HELLO_INVALID",
                                                          .place = place,
                                                          .message = "Hello without agent id or instance",
                                                          .next = "Give the agent a name with --id."});
  }
  if (agents_.contains(hello.agent_id)) return absl::OkStatus();
  if (agents_.size() >= options_.max_agents) {
    return MakeError(absl::StatusCode::kResourceExhausted,
                     {.code = "FLEET_FULL",
                      .place = place,
                      .message = fmt::format("{} agents are there, the limit", agents_.size())});
  }
  return absl::OkStatus();
}

absl::Status Fleet::Refuse(absl::Status why) {
  std::string text = FormatError(why);
  // An agent that keeps trying is one refusal, not many.
  if (std::find(refusals_.begin(), refusals_.end(), text) == refusals_.end()) {
    refusals_.push_back(std::move(text));
    if (refusals_.size() > kRefusalsKept) refusals_.pop_front();
  }
  return why;
}

// The session of the same process goes on: the one it holds, or one it has not heard of yet.
std::optional<Welcome> Fleet::Resume(const HelloInfo& hello, uint64_t link_id, Nanos now) {
  const auto found = agents_.find(hello.agent_id);
  if (found == agents_.end() || found->second.member.hello.instance != hello.instance) return std::nullopt;
  Entry& entry = found->second;
  Member& member = entry.member;
  const bool unheard = !hello.held_live && !entry.heard_any;
  if (now >= member.lease_end || (!hello.held_live && !unheard)) return std::nullopt;
  if (hello.held_live && (hello.held_epoch != options_.epoch || !entry.control.Acknowledge(hello.held_heard).ok())) {
    return std::nullopt;
  }
  Welcome welcome;
  welcome.resumed = hello.held_live;
  // A break that was not noticed lies after the last Beat.
  welcome.down = now - (member.up() ? member.lease_end - options_.lease : member.down_since);
  welcome.replaced = member.up() ? member.link_id : 0;
  member.link_id = link_id;
  member.down_since = kNever;
  welcome.wants_reports = unheard && entry.wants_reports;
  if (unheard && !entry.wants_reports) member.last_sequence = member.committed = hello.last_sequence;
  welcome.heard = entry.control.heard();
  welcome.again.assign(entry.control.kept().begin(), entry.control.kept().end());
  welcome.reports = hello.last_sequence - std::min(hello.last_sequence, member.last_sequence);
  welcome.member = member;
  return welcome;
}

absl::StatusOr<Welcome> Fleet::Admit(const HelloInfo& hello, uint64_t link_id, Nanos now, bool collecting,
                                     std::optional<uint64_t> handed_over) {
  if (absl::Status status = Check(hello); !status.ok()) return Refuse(std::move(status));
  if (auto resumed = Resume(hello, link_id, now)) return *std::move(resumed);
  if (hello.held_live) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     {.code = "SESSION_OVER",
                      .place = AgentAt(hello),
                      .message = "the session it holds is of another controller, or was given up here",
                      .next = "It ends its load and comes back by itself."});
  }
  Welcome welcome;
  if (const auto found = agents_.find(hello.agent_id); found != agents_.end()) {
    const Member& there = found->second.member;
    const bool same = there.hello.instance == hello.instance;
    if (!same && now < there.lease_end) {
      return Refuse(MakeError(
          absl::StatusCode::kAlreadyExists,
          {.code = "AGENT_ID_TAKEN",
           .place = AgentAt(hello),
           .message = fmt::format("agent id {} is in use by another process on host {}{}; this one is on host {}",
                                  hello.agent_id, there.hello.hostname,
                                  there.up() ? "" : ", whose link is down and whose lease runs", hello.hostname),
           .next = "Give every agent its own --id; one that was restarted is taken when the old lease has ended."}));
    }
    welcome.ended =
        MakeError(absl::StatusCode::kUnavailable,
                  {.code = same ? "SESSION_ENDED" : "LEASE_ENDED",
                   .place = AgentAt(hello),
                   .message = same ? "the agent has ended its session: its lease was over" : "its lease has ended",
                   .next = "Look at the agent's log."});
    Forget(hello.agent_id);
  }
  Entry entry;
  Member& member = entry.member;
  member.hello = hello;
  member.api = std::min(hello.api_max, options_.api_max);
  member.link_id = link_id;
  member.lease_end = now + options_.lease;
  member.last_sequence = member.committed = hello.last_sequence;
  const auto former = former_.find(hello.agent_id);
  if (collecting && former != former_.end() && former->second.instance == hello.instance &&
      hello.held_epoch == options_.epoch && former->second.received <= hello.last_sequence) {
    welcome.wants_reports = entry.wants_reports = true;
    welcome.reports = hello.last_sequence - former->second.received;
    member.last_sequence = former->second.received;
    member.committed = former->second.committed;
  } else if (handed_over && hello.held_epoch != options_.epoch && *handed_over <= hello.last_sequence) {
    welcome.wants_reports = entry.wants_reports = true;
    welcome.reports = hello.last_sequence - *handed_over;
    member.last_sequence = member.committed = *handed_over;
  }
  welcome.member = member;
  agents_.emplace(hello.agent_id, std::move(entry));
  return welcome;
}

bool Fleet::LinkDown(const std::string& agent, uint64_t link_id, Nanos now) {
  Entry* entry = Current(agent, link_id);
  if (entry == nullptr) return false;
  entry->member.down_since = now;
  return true;
}

Fleet::Entry* Fleet::Current(const std::string& agent, uint64_t link_id) {
  const auto found = agents_.find(agent);
  if (found == agents_.end()) return nullptr;
  Entry& entry = found->second;
  return entry.member.link_id == link_id && entry.member.up() ? &entry : nullptr;
}

absl::StatusOr<bool> Fleet::Hear(const std::string& agent, uint64_t link_id, uint64_t seq) {
  Entry* entry = Current(agent, link_id);
  if (entry == nullptr) {
    return MakeError(absl::StatusCode::kNotFound, {.code = "LINK_REPLACED",
                                                   .place = "agent " + agent,
                                                   .message = "another link has taken this one's place",
                                                   .next = {}});
  }
  entry->heard_any = true;
  return entry->control.Hear(seq);
}

absl::Status Fleet::Acknowledge(const std::string& agent, uint64_t link_id, uint64_t seq) {
  Entry* entry = Current(agent, link_id);
  return entry == nullptr ? absl::OkStatus() : entry->control.Acknowledge(seq);
}

absl::StatusOr<uint64_t> Fleet::Command(const std::string& agent, AgentCommand command) {
  const auto found = agents_.find(agent);
  if (found == agents_.end()) {
    return MakeError(absl::StatusCode::kNotFound,
                     {.code = "AGENT_UNKNOWN", .place = "agent " + agent, .message = "it is not there", .next = {}});
  }
  return found->second.control.Keep(std::move(command));
}

uint64_t Fleet::HeardOf(const std::string& agent) const {
  const auto found = agents_.find(agent);
  return found == agents_.end() ? 0 : found->second.control.heard();
}

std::string Fleet::Disagreement(const Entry& entry) const {
  const Member& member = entry.member;
  const HelloInfo& hello = member.hello;
  if (hello.boot_id.empty()) return {};
  if (hello.boot_id == options_.boot_id && hello.time_namespace == options_.time_namespace &&
      !ClocksAgree(member.clock, {.offset = 0, .error = 0})) {
    return fmt::format(
        "agent {} runs on the controller's host, but its clock is {} ns off with a stated error of {} ns",
        hello.agent_id, member.clock.offset, member.clock.error);
  }
  for (const auto& [id, other] : agents_) {
    if (id == hello.agent_id || other.member.hello.boot_id != hello.boot_id ||
        other.member.hello.time_namespace != hello.time_namespace || ClocksAgree(member.clock, other.member.clock)) {
      continue;
    }
    return fmt::format(
        "agents {} and {} run on one host, but their clock offsets {} ns and {} ns differ by more than "
        "their errors {} ns and {} ns",
        hello.agent_id, id, member.clock.offset, other.member.clock.offset, member.clock.error,
        other.member.clock.error);
  }
  return {};
}

std::vector<std::string> Fleet::OnBeat(const std::string& agent, uint64_t link_id, const BeatInfo& beat, Nanos t2,
                                       Nanos t3) {
  Entry* current = Current(agent, link_id);
  if (current == nullptr) return {};
  Entry& entry = *current;
  entry.heard_any = true;
  entry.member.lease_end = std::max(entry.member.lease_end, t2 + options_.lease);
  entry.clock.OnBeat(beat, t2, t3);
  entry.member.clock = entry.clock.At(t3);
  std::string text = Disagreement(entry);
  const bool news = !text.empty() && !entry.disagreed;
  entry.disagreed = !text.empty();
  if (!news) return {};
  return {std::move(text)};
}

bool Fleet::OnReport(const std::string& agent, uint64_t link_id, uint64_t sequence) {
  Entry* entry = Current(agent, link_id);
  if (entry == nullptr) return false;
  entry->member.last_sequence = std::max(entry->member.last_sequence, sequence);
  return true;
}

void Fleet::OnCommitted(const std::string& agent, uint64_t sequence) {
  if (const auto found = agents_.find(agent); found != agents_.end()) {
    Member& member = found->second.member;
    member.committed = std::max(member.committed, std::min(sequence, member.last_sequence));
  } else if (const auto former = former_.find(agent); former != former_.end()) {
    former->second.committed = std::max(former->second.committed, std::min(sequence, former->second.received));
  }
}

bool Fleet::Remove(const std::string& agent, uint64_t link_id) {
  const auto found = agents_.find(agent);
  if (found == agents_.end() || found->second.member.link_id != link_id) return false;
  Forget(agent);
  return true;
}

void Fleet::Forget(const std::string& agent) {
  const auto found = agents_.find(agent);
  const Member& member = found->second.member;
  if (former_.size() >= options_.max_agents && !former_.contains(agent)) former_.erase(former_.begin());
  former_[agent] = {.instance = member.hello.instance, .received = member.last_sequence, .committed = member.committed};
  agents_.erase(found);
}

std::vector<std::string> Fleet::Expired(Nanos now) const {
  std::vector<std::string> expired;
  for (const auto& [id, entry] : agents_) {
    if (now >= entry.member.lease_end) expired.push_back(id);
  }
  return expired;
}

const Member* Fleet::Find(const std::string& agent) const {
  const auto found = agents_.find(agent);
  return found == agents_.end() ? nullptr : &found->second.member;
}

std::vector<Member> Fleet::Members() const {
  std::vector<Member> members;
  members.reserve(agents_.size());
  for (const auto& [id, entry] : agents_) members.push_back(entry.member);
  return members;
}

}  // namespace muster
