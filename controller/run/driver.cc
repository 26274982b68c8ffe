#include "controller/run/driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <memory>

#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/wire/version.h"
#include "controller/run/driver_inbox.h"
#include "controller/run/driver_store.h"
#include "controller/run/run_machine.h"
#include "controller/verdict/verdict.h"

namespace muster {
namespace {

constexpr Nanos kPoll = 50 * kMillisecond;  // cancel and leases are looked at this often
constexpr Nanos kRetry = 2 * kMillisecond;  // while the store's queue is full

// Stops the gateway from calling into an inbox that nobody reads any more.
class Subscription {
 public:
  Subscription(AgentGateway& gateway, AgentSink& sink) : gateway_(gateway) { gateway_.SetSink(&sink); }
  ~Subscription() { gateway_.SetSink(nullptr); }
  Subscription(const Subscription&) = delete;
  Subscription& operator=(const Subscription&) = delete;

 private:
  AgentGateway& gateway_;
};

RunAgent ToRunAgent(const Member& member) {
  const HelloInfo& hello = member.hello;
  RunAgent agent{.id = hello.agent_id,
                 .host_id = hello.host_id,
                 .boot_id = hello.boot_id,
                 .hostname = hello.hostname,
                 .build = hello.build,
                 .facts = hello.host_facts};
  std::string capabilities;
  for (const std::string& capability : hello.capabilities) {
    capabilities += (capabilities.empty() ? "" : ", ") + capability;
  }
  agent.facts.emplace_back("capabilities", capabilities);
  agent.facts.emplace_back("api", std::to_string(member.api));
  return agent;
}

absl::StatusOr<std::unique_ptr<RunWriter>> OpenRun(const RunOptions& options, const Plan& plan,
                                                   const std::vector<RunAgent>& agents) {
  std::unique_ptr<RunWriter> writer;
  if (options.resume_path.empty()) {
    MUSTER_ASSIGN_OR_RETURN(writer, RunWriter::Create(options.runs_dir, options.header, options.keep_raw));
    MUSTER_RETURN_IF_ERROR(writer->WritePlan(plan));
  } else {
    StoreOptions store;
    store.keep_raw = options.keep_raw;
    MUSTER_ASSIGN_OR_RETURN(writer, RunWriter::Resume(options.resume_path, store));
    MUSTER_RETURN_IF_ERROR(writer->WriteEvent(WallMicros(), options.resume_note));
  }
  for (const RunAgent& agent : agents) MUSTER_RETURN_IF_ERROR(writer->WriteAgent(agent));
  return writer;
}

class Driver {
 public:
  Driver(const Plan& plan, const RunOptions& options, RunObserver& observer, const std::atomic<int>& cancel,
         AgentGateway& gateway, const Clock& clock)
      : plan_(plan), options_(options), observer_(observer), cancel_(cancel), gateway_(gateway), clock_(clock) {}

  RunOutcome Run();

 private:
  absl::Status OpenStore(const std::vector<Member>& members);
  void Feed(const RunEvent& event, const std::shared_ptr<void>& ticket = nullptr);
  void Do(RunAction action, const std::shared_ptr<void>& ticket);
  void ToStore(decltype(StoreOp::what) what, std::shared_ptr<void> ticket = nullptr);
  void FlushStore();
  void Tell(const std::string& text);
  Nanos Patience() const;

  const Plan& plan_;
  const RunOptions& options_;
  RunObserver& observer_;
  const std::atomic<int>& cancel_;
  AgentGateway& gateway_;
  const Clock& clock_;
  std::shared_ptr<DriverInbox> inbox_ = std::make_shared<DriverInbox>();
  std::unique_ptr<StoreThread> store_;
  std::unique_ptr<RunMachine> machine_;
  std::deque<StoreOp> held_;  // the store's queue is full; bounded by the tickets in them
  std::string path_;
  bool store_failed_ = false;
};

absl::Status Driver::OpenStore(const std::vector<Member>& members) {
  std::vector<RunAgent> agents;
  agents.reserve(members.size());
  for (const Member& member : members) agents.push_back(ToRunAgent(member));
  // Shared with the thread, which may be left behind by a disk that hangs.
  auto opened = std::make_shared<BoundedQueue<absl::StatusOr<std::string>>>(1);
  store_ = std::make_unique<StoreThread>(
      [options = options_, plan = plan_, agents = std::move(agents)] { return OpenRun(options, plan, agents); },
      [opened](absl::StatusOr<std::string> path) { (void)opened->TryPush(std::move(path)); }, inbox_);
  const Nanos limit = options_.deadlines.store;
  const Nanos until = clock_.Now() + limit;
  std::optional<absl::StatusOr<std::string>> path;
  while (!path && clock_.Now() < until) {
    path = opened->Pop(kPoll);
    gateway_.CheckLeases();
    if (!path && cancel_.load() >= 2) return absl::CancelledError("cancelled before the run file was made");
  }
  if (!path) {
    return MakeError(absl::StatusCode::kDeadlineExceeded,
                     {.code = "STORE_STALLED",
                      .place = options_.runs_dir,
                      .message = "the run file could not be made within " + FormatDuration(limit),
                      .next = "The disk below the runs directory hangs."});
  }
  if (!path->ok()) return path->status();
  path_ = **path;
  return absl::OkStatus();
}

RunOutcome Driver::Run() {
  RunOutcome outcome;
  outcome.run_id = options_.header.id;
  outcome.outcome = "failed";
  Subscription subscription(gateway_, *inbox_);
  const std::vector<Member> members = gateway_.Members();
  if (members.empty()) {
    outcome.error = MakeError(
        absl::StatusCode::kUnavailable,
        {.code = "AGENTS_MISSING", .place = "fleet", .message = "no agent is there", .next = "Start an agent."});
    return outcome;
  }
  if (absl::Status status = OpenStore(members); !status.ok()) {
    outcome.error = status;
    return outcome;
  }
  outcome.path = path_;
  observer_.OnRunStarted(options_.header.id, path_);

  RunMachineOptions machine;
  machine.run_id = options_.header.id;
  machine.deadlines = options_.deadlines;
  machine.target_places = options_.target_places;
  machine.lease = options_.lease;
  machine.judge = [](const StepFigures& figures, Nanos op_timeout) { return Evaluate(figures, op_timeout); };
  std::vector<FleetAgent> agents;
  agents.reserve(members.size());
  for (const Member& member : members) {
    agents.push_back({.id = member.hello.agent_id,
                      .host_id = member.hello.host_id,
                      .hostname = member.hello.hostname,
                      .insecure_tcp = member.hello.insecure_tcp,
                      .other_build = member.hello.build == BuildString() ? "" : member.hello.build,
                      .last_sequence = member.last_sequence,
                      .clock = member.clock});
  }
  machine_ = std::make_unique<RunMachine>(plan_, std::move(machine), std::move(agents));

  int cancelled = 0;
  bool detail = false;
  Feed(Tick{});
  while (!machine_->done()) {
    DriverInbox::Batch batch = inbox_->Take(Patience());
    gateway_.CheckLeases();
    if (const int level = std::min(cancel_.load(), 2); level > cancelled) {
      cancelled = level;
      Feed(CancelAsked{level});
    }
    if (const bool wanted = observer_.WantsDetail(); wanted != detail) Feed(DetailAsked{detail = wanted});
    for (RunEvent& event : batch.store) {
      if (std::holds_alternative<StoreFailed>(event)) store_failed_ = true;
      Feed(event);
    }
    for (const std::string& note : batch.notes) Tell(note);
    for (AgentEvent& event : batch.agents) {
      const std::shared_ptr<void> ticket = std::move(event.ticket);
      Feed(std::move(event), ticket);
    }
    Feed(Tick{});
    FlushStore();
  }
  outcome.outcome = machine_->outcome();
  outcome.error = machine_->error();
  outcome.any_invalid = machine_->any_invalid();
  outcome.quiet_at = machine_->quiet_at();
  held_.clear();
  return outcome;
}

Nanos Driver::Patience() const {
  const Nanos until = std::clamp<Nanos>(machine_->Deadline() - clock_.Now(), kMillisecond, kPoll);
  return held_.empty() ? until : std::min(until, kRetry);
}

void Driver::Feed(const RunEvent& event, const std::shared_ptr<void>& ticket) {
  for (RunAction& action : machine_->Step(event, clock_.Now())) Do(std::move(action), ticket);
}

void Driver::ToStore(decltype(StoreOp::what) what, std::shared_ptr<void> ticket) {
  held_.push_back({.what = std::move(what), .ticket = std::move(ticket)});
  FlushStore();
}

void Driver::FlushStore() {
  while (!held_.empty()) {
    // A failed store takes the end of the run alone; nothing else must wait for it.
    const bool wanted = !store_failed_ || std::holds_alternative<FinishAction>(held_.front().what);
    if (wanted && !store_->TryPush(held_.front())) return;
    held_.pop_front();
  }
}

void Driver::Tell(const std::string& text) {
  observer_.OnEvent(text);
  ToStore(StoreEvent{WallMicros(), text});
}

void Driver::Do(RunAction action, const std::shared_ptr<void>& ticket) {
  if (auto* send = std::get_if<SendAction>(&action)) {
    gateway_.Send(send->agent, std::move(send->command));
  } else if (auto* ack = std::get_if<AcknowledgeAction>(&action)) {
    gateway_.Acknowledge(ack->agent, ack->sequence);
  } else if (auto* refuse = std::get_if<RefuseReportsAction>(&action)) {
    gateway_.RefuseReports(refuse->agent, refuse->why);
  } else if (auto* drop = std::get_if<DropAction>(&action)) {
    gateway_.Drop(drop->agent, drop->why);
  } else if (auto* space = std::get_if<CheckSpaceAction>(&action)) {
    Plan one = plan_;
    std::erase_if(one.steps, [&](const muster::Step& step) { return step.index != space->step; });
    ToStore(StoreSpace{.dir = options_.runs_dir, .bytes = EstimateStoreBytes(one)});
  } else if (auto* commit = std::get_if<CommitReportAction>(&action)) {
    ToStore(std::move(*commit), ticket);
  } else if (auto* interval = std::get_if<WriteIntervalAction>(&action)) {
    ToStore(std::move(*interval));
  } else if (auto* seal = std::get_if<SealStepAction>(&action)) {
    ToStore(std::move(*seal));
  } else if (auto* phase = std::get_if<SealPhaseAction>(&action)) {
    ToStore(std::move(*phase));
  } else if (auto* finish = std::get_if<FinishAction>(&action)) {
    ToStore(std::move(*finish));
  } else if (auto* begun = std::get_if<PhaseBegunAction>(&action)) {
    const auto step = std::find_if(plan_.steps.begin(), plan_.steps.end(),
                                   [&](const muster::Step& s) { return s.index == begun->step; });
    if (step != plan_.steps.end()) observer_.OnPhase(*step, begun->phase, begun->expected);
  } else if (auto* fill = std::get_if<FillProgressAction>(&action)) {
    observer_.OnFillProgress(fill->progress);
  } else if (auto* live = std::get_if<LiveAction>(&action)) {
    const auto step = std::find_if(plan_.steps.begin(), plan_.steps.end(),
                                   [&](const muster::Step& s) { return s.index == live->step; });
    if (step != plan_.steps.end()) observer_.OnLive(*step, live->live);
  } else if (auto* result = std::get_if<StepResultAction>(&action)) {
    observer_.OnStepResult(*result->result);
  } else if (auto* tell = std::get_if<TellAction>(&action)) {
    Tell(tell->text);
  }
}

}  // namespace

RunOutcome DriveRun(const Plan& plan, const RunOptions& options, RunObserver& observer, const std::atomic<int>& cancel,
                    AgentGateway& gateway, const Clock& clock) {
  return Driver(plan, options, observer, cancel, gateway, clock).Run();
}

}  // namespace muster
