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
  const auto found = agents_.find(hello.agent_id);
  if (found != agents_.end()) {
    const HelloInfo& there = found->second.member.hello;
    const bool same = there.instance == hello.instance;
    return MakeError(absl::StatusCode::kAlreadyExists,
                     {.code = "AGENT_ID_TAKEN",
                      .place = place,
                      .message = same ? fmt::format("this process is connected already (host {})", there.hostname)
                                      : fmt::format("agent id {} is in use by another process on host {}; this one "
                                                    "is on host {}",
                                                    hello.agent_id, there.hostname, hello.hostname),
                      .next = "Give every agent its own --id."});
  }
  if (agents_.size() >= options_.max_agents) {
    return MakeError(absl::StatusCode::kResourceExhausted,
                     {.code = "FLEET_FULL",
                      .place = place,
                      .message = fmt::format("{} agents are there, the limit", agents_.size())});
  }
  return absl::OkStatus();
}

absl::StatusOr<Member> Fleet::Admit(const HelloInfo& hello, uint64_t link_id, Nanos now) {
  if (absl::Status status = Check(hello); !status.ok()) {
    std::string text = FormatError(status);
    // An agent that keeps trying is one refusal, not many.
    if (std::find(refusals_.begin(), refusals_.end(), text) == refusals_.end()) {
      refusals_.push_back(std::move(text));
      if (refusals_.size() > kRefusalsKept) refusals_.pop_front();
    }
    return status;
  }
  Entry entry;
  entry.member.hello = hello;
  entry.member.api = std::min(hello.api_max, options_.api_max);
  entry.member.link_id = link_id;
  entry.member.lease_end = now + options_.lease;
  entry.member.last_sequence = hello.last_sequence;
  Member member = entry.member;
  agents_.emplace(hello.agent_id, std::move(entry));
  return member;
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
  const auto found = agents_.find(agent);
  if (found == agents_.end() || found->second.member.link_id != link_id) return {};
  Entry& entry = found->second;
  entry.member.lease_end = std::max(entry.member.lease_end, t2 + options_.lease);
  entry.clock.OnBeat(beat, t2, t3);
  entry.member.clock = entry.clock.At(t3);
  std::string text = Disagreement(entry);
  const bool news = !text.empty() && !entry.disagreed;
  entry.disagreed = !text.empty();
  if (!news) return {};
  return {std::move(text)};
}

void Fleet::OnReport(const std::string& agent, uint64_t sequence) {
  const auto found = agents_.find(agent);
  if (found == agents_.end()) return;
  found->second.member.last_sequence = std::max(found->second.member.last_sequence, sequence);
}

bool Fleet::Remove(const std::string& agent, uint64_t link_id) {
  const auto found = agents_.find(agent);
  if (found == agents_.end() || found->second.member.link_id != link_id) return false;
  agents_.erase(found);
  return true;
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
