#include "controller/queue/run_queue.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/status.h"

namespace muster {
namespace {

// Of a claim on the hosts of the agents that would work on it: one key a host, or one in all.
std::vector<std::pair<std::string, std::string>> KeysOf(const TargetClaim& claim,
                                                        const std::vector<const QueueAgent*>& agents) {
  if (claim.remote) return {{claim.what, claim.shown}};
  std::map<std::string, std::string> keys;
  for (const QueueAgent* agent : agents) {
    keys.try_emplace(fmt::format("{} on {}", claim.what, agent->host),
                     fmt::format("{} on {}", claim.shown, agent->hostname));
  }
  return {keys.begin(), keys.end()};
}

std::string Whose(const std::string& run, bool waits, Nanos quiet_after) {
  if (quiet_after > 0) {
    return fmt::format("which an agent that run {} lost may load for up to {} after its end", run,
                       FormatDuration((quiet_after + kSecond - 1) / kSecond * kSecond));
  }
  return waits ? fmt::format("kept for run {}, which came first", run) : fmt::format("used by run {}", run);
}

// A list for people that does not grow with the fleet.
void Bound(std::vector<std::string>& reasons) {
  if (reasons.size() <= RunQueue::kReasons) return;
  const size_t more = reasons.size() - RunQueue::kReasons + 1;
  reasons.resize(RunQueue::kReasons - 1);
  reasons.push_back(fmt::format("and {} more", more));
}

}  // namespace

absl::Status RunQueue::Submit(RunNeeds needs, Nanos now) {
  if (waiting_.size() >= limits_.waiting) {
    return MakeError(absl::StatusCode::kResourceExhausted,
                     {.code = "QUEUE_FULL",
                      .place = "queue",
                      .message = fmt::format("{} runs wait, the limit", limits_.waiting),
                      .next = "Wait until some have begun, or cancel one."});
  }
  waiting_.push_back({.needs = std::move(needs), .since = now, .waits_for = {}});
  return absl::OkStatus();
}

bool RunQueue::Choose(const RunNeeds& needs, const std::vector<QueueAgent>& there, const Claims& claims,
                      std::vector<const QueueAgent*>& chosen, std::vector<std::string>& why) const {
  std::vector<const QueueAgent*> matching, free;
  for (const QueueAgent& agent : there) {
    if (!Matches(agent.labels, needs.match)) continue;
    matching.push_back(&agent);
    if (!claims.agents.contains(agent.id)) free.push_back(&agent);
  }
  const size_t wanted = needs.agents > 0 ? needs.agents : std::max<size_t>(1, matching.size());
  if (matching.size() < wanted) {
    why.push_back(fmt::format("agents: {} of {} that match {} are there", matching.size(),
                              needs.agents > 0 ? fmt::format("the {}", needs.agents) : std::string("those"),
                              needs.match.empty() ? "anything" : FormatLabels(needs.match)));
    return false;
  }
  for (const QueueAgent* agent : matching) {
    if (free.size() >= wanted) break;
    const auto taken = claims.agents.find(agent->id);
    if (taken != claims.agents.end()) {
      why.push_back(fmt::format("agent {}, {}", agent->id, Whose(taken->second.run, taken->second.waits, 0)));
    }
  }
  chosen = free;
  if (chosen.size() > wanted) chosen.resize(wanted);
  // Local targets clash on the hosts it will work on: those that are still taken as well, when it wants all.
  const auto& hosts = chosen.size() < wanted ? matching : chosen;
  for (const TargetClaim& claim : needs.targets) {
    for (const auto& [key, shown] : KeysOf(claim, hosts)) {
      const auto taken = claims.targets.find(key);
      if (taken == claims.targets.end()) continue;
      const Taken& by = taken->second;
      why.push_back(fmt::format("target {}, {}", shown, Whose(by.run, by.waits, by.quiet_after)));
    }
  }
  return true;
}

std::vector<RunQueue::Start> RunQueue::Dispatch(const std::vector<QueueAgent>& there, Nanos now) {
  std::erase_if(running_, [&](const auto& entry) { return entry.second.quiet_at <= now; });
  Claims claims;
  size_t going_on = 0;
  for (const auto& [run, held] : running_) {
    const bool over = held.quiet_at != kNever;
    if (!over) ++going_on;
    for (const std::string& agent : held.agents) claims.agents[agent] = {run, false, 0};
    const Nanos quiet_after = over ? held.quiet_at - held.ended_at : 0;
    for (const std::string& target : held.targets) claims.targets[target] = {run, false, quiet_after};
  }
  std::vector<Start> starts;
  std::vector<Entry> still;
  for (Entry& entry : waiting_) {
    std::vector<const QueueAgent*> chosen;
    std::vector<std::string> why;
    const bool enough = Choose(entry.needs, there, claims, chosen, why);
    if (enough && why.empty() && going_on >= limits_.running) {
      why.push_back(fmt::format("{} runs are going on, the limit", limits_.running));
    }
    const bool begins = why.empty();
    if (enough) {
      for (const QueueAgent* agent : chosen) claims.agents.try_emplace(agent->id, Taken{entry.needs.run, !begins, 0});
      for (const TargetClaim& claim : entry.needs.targets) {
        for (const auto& [key, shown] : KeysOf(claim, chosen)) {
          claims.targets.try_emplace(key, Taken{entry.needs.run, !begins, 0});
        }
      }
    }
    if (begins) {
      Start start{.run = entry.needs.run, .agents = {}};
      ++going_on;
      Held& held = running_[entry.needs.run];
      for (const QueueAgent* agent : chosen) start.agents.push_back(agent->id);
      held.agents = start.agents;
      for (const TargetClaim& claim : entry.needs.targets) {
        for (const auto& [key, shown] : KeysOf(claim, chosen)) held.targets.insert(key);
      }
      starts.push_back(std::move(start));
    } else {
      Bound(why);
      entry.waits_for = std::move(why);
      still.push_back(std::move(entry));
    }
  }
  waiting_ = std::move(still);
  return starts;
}

bool RunQueue::Cancel(const std::string& run) {
  return std::erase_if(waiting_, [&](const Entry& entry) { return entry.needs.run == run; }) > 0;
}

void RunQueue::Ended(const std::string& run, Nanos now, Nanos quiet_at) {
  const auto found = running_.find(run);
  if (found == running_.end()) return;
  found->second.agents.clear();
  found->second.ended_at = now;
  found->second.quiet_at = quiet_at;  // what lies in the past is dropped by the next Dispatch
}

std::vector<RunQueue::Waiting> RunQueue::waiting() const {
  std::vector<Waiting> out;
  out.reserve(waiting_.size());
  for (const Entry& entry : waiting_) {
    out.push_back({.run = entry.needs.run, .since = entry.since, .waits_for = entry.waits_for});
  }
  return out;
}

std::vector<std::string> RunQueue::running() const {
  std::vector<std::string> out;
  for (const auto& [run, held] : running_) {
    if (held.quiet_at == kNever) out.push_back(run);
  }
  return out;
}

std::string RunQueue::UserOf(const std::string& agent) const {
  for (const auto& [run, held] : running_) {
    if (std::find(held.agents.begin(), held.agents.end(), agent) != held.agents.end()) return run;
  }
  return {};
}

}  // namespace muster
