#include "controller/service/hand_over.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/base/thread.h"

namespace muster {
namespace {

constexpr size_t kQueue = 4096;  // reports; an agent has a few tickets only
constexpr Nanos kPoll = 100 * kMillisecond;

}  // namespace

bool HandOver::Sink::OnAgentEvent(AgentEvent event) {
  auto* report = std::get_if<AgentReport>(&event.says);
  if (report == nullptr) return true;
  return queue.TryPush({.agent = event.agent, .report = std::move(*report), .ticket = std::move(event.ticket)});
}

HandOver::HandOver(std::vector<InterruptedRun> runs, AgentRouter& router, Options options, const Clock& clock)
    : router_(router), options_(options), clock_(clock), queue_(kQueue), sink_(queue_) {
  for (InterruptedRun& file : runs) {
    Run& run = runs_[file.id];
    for (const auto& [agent, committed] : file.committed) run.parts[agent].committed = committed;
    run.file = std::move(file);
    Log(LogLevel::kInfo, "run={} was cut off; what its {} agents still hold of it is taken", run.file.id,
        run.parts.size());
  }
  if (runs_.empty()) return;
  thread_ = std::thread([this] {
    SetThreadName("hand-over");
    Loop();
  });
}

HandOver::~HandOver() {
  stop_ = true;
  queue_.Close();
  if (thread_.joinable()) thread_.join();
  // What has not come by now stays open for the next controller.
  for (auto& [id, run] : runs_) run.parts.clear();
}

std::optional<uint64_t> HandOver::Asked(const HelloInfo& hello) {
  std::lock_guard lock(mutex_);
  std::optional<uint64_t> after;
  for (auto& [id, run] : runs_) {
    const auto found = run.parts.find(hello.agent_id);
    if (found == run.parts.end() || found->second.stage != Stage::kAwaited) continue;
    if (run.until == kNever) {
      run.until = clock_.Now() + options_.lease + run.file.op_timeout + options_.slack;
    }
    if (hello.held_live) continue;  // it ends its load first, and comes back
    Part& part = found->second;
    // Either may know better: an acknowledgement can be lost, and what was sealed is in no log any more.
    part.committed = std::max(part.committed, hello.held_committed);
    if (hello.held_run != id) {
      part.stage = Stage::kLost;
      Log(LogLevel::kWarning, "run={} agent={} is there and holds nothing of the run: it was restarted, or gave it up",
          id, hello.agent_id);
    } else if (hello.last_sequence <= part.committed) {
      part.stage = Stage::kDone;
    } else {
      part.stage = Stage::kComing;
      part.gateway = router_.Open({hello.agent_id});
      part.gateway->SetSink(&sink_);
      after = part.committed;
      Log(LogLevel::kInfo, "run={} agent={} hands over what it holds: up to {} reports", id, hello.agent_id,
          hello.last_sequence - part.committed);
    }
  }
  return after;
}

bool HandOver::Busy(const std::string& agent) {
  std::lock_guard lock(mutex_);
  return std::any_of(runs_.begin(), runs_.end(), [&](const auto& run) {
    const auto found = run.second.parts.find(agent);
    return found != run.second.parts.end() && found->second.stage == Stage::kComing;
  });
}

void HandOver::Loop() {
  while (!stop_) {
    if (auto item = queue_.Pop(kPoll)) Take(*std::move(item));
    EndRuns();
  }
}

absl::Status HandOver::Write(Run& run, const Item& item) {
  if (run.failed || run.file.sealed.contains(item.report.key.step)) return absl::OkStatus();
  if (run.writer == nullptr) {
    MUSTER_ASSIGN_OR_RETURN(run.writer, RunWriter::TakeUp(run.file.path));
  }
  return run.writer->CommitReports(
      {{.agent = item.agent, .sequence = item.report.sequence, .key = item.report.key, .bytes = item.report.bytes}});
}

// Only this thread uses writers and erases runs, so a run may be written without the lock.
void HandOver::Take(Item item) {
  Run* run = nullptr;
  AgentGateway* gateway = nullptr;
  std::string id;
  {
    std::lock_guard lock(mutex_);
    for (auto& [name, candidate] : runs_) {
      const auto found = candidate.parts.find(item.agent);
      if (found == candidate.parts.end() || found->second.stage != Stage::kComing) continue;
      run = &candidate;
      gateway = found->second.gateway.get();
      id = name;
    }
  }
  if (run == nullptr) return;
  const bool wanted = item.report.key.run == id;
  if (wanted) {
    if (absl::Status status = Write(*run, item); !status.ok()) {
      run->failed = true;
      Log(LogLevel::kError, "run={} agent={} its reports are lost, they cannot be written: {}", id, item.agent,
          FormatError(status));
    }
  }
  gateway->Acknowledge(item.agent, item.report.sequence);
  std::unique_ptr<AgentGateway> over;
  std::lock_guard lock(mutex_);
  Part& part = run->parts[item.agent];
  if (!wanted) return;
  ++part.reports;
  const bool ended = std::holds_alternative<PhaseEnded>(item.report.body);
  if (!ended || item.report.key.phase != PhaseKind::kMeasure) return;
  part.stage = Stage::kDone;
  over = std::move(part.gateway);
  Log(LogLevel::kInfo, "run={} agent={} has handed over {} reports", id, item.agent, part.reports);
}

void HandOver::EndRuns() {
  std::vector<std::string> over;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, run] : runs_) {
      if (run.until == kNever) continue;
      const bool all = std::all_of(run.parts.begin(), run.parts.end(), [](const auto& part) {
        return part.second.stage == Stage::kDone || part.second.stage == Stage::kLost;
      });
      if (all || clock_.Now() >= run.until) over.push_back(id);
    }
  }
  for (const std::string& id : over) {
    decltype(runs_)::node_type node;
    {
      // From here on nobody is asked for anything of it.
      std::lock_guard lock(mutex_);
      node = runs_.extract(id);
    }
    End(node.mapped());
  }
}

void HandOver::End(Run& run) {
  std::string there, missing;
  size_t reports = 0;
  for (const auto& [agent, part] : run.parts) {
    std::string& list = part.stage == Stage::kDone ? there : missing;
    list += (list.empty() ? "" : ", ") + agent;
    reports += part.reports;
  }
  const std::string message = fmt::format(
      "its controller ended before it did; {} reports were handed over afterwards; all that they held: {}; "
      "not, or not all: {}",
      reports, there.empty() ? "nobody" : there, missing.empty() ? "nobody" : missing);
  absl::Status status;
  if (run.writer == nullptr) {
    auto opened = RunWriter::TakeUp(run.file.path);
    status = opened.status();
    if (opened.ok()) run.writer = *std::move(opened);
  }
  if (status.ok()) status = run.writer->Finish("interrupted", message, WallMicros());
  if (status.ok()) {
    Log(LogLevel::kInfo, "run={} ended: interrupted, {}", run.file.id, message);
  } else {
    Log(LogLevel::kError, "run={} cannot be ended: {}", run.file.id, FormatError(status));
  }
}

}  // namespace muster
