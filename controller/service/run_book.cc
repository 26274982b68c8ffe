#include "controller/service/run_book.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/base/thread.h"
#include "common/wire/text.h"
#include "controller/run/driver.h"
#include "controller/run/run_id.h"

namespace muster {
namespace {

constexpr size_t kLookedAt = 64;            // newest runs that may be interrupted
constexpr Nanos kPoll = 50 * kMillisecond;  // who is there and whose lease has ended is looked at this often

absl::Status Unknown(const std::string& name, const std::string& known) {
  return MakeError(absl::StatusCode::kNotFound,
                   {.code = "RUN_UNKNOWN",
                    .place = "run " + name,
                    .message = "this controller has no such run" + (known.empty() ? "" : "; it has " + known),
                    .next = "`muster status` lists runs; ended ones are in `muster results list`."});
}

RunOutcome NotBegun(const std::string& run, std::string outcome, absl::Status error) {
  return {.run_id = run, .path = {}, .outcome = std::move(outcome), .error = std::move(error), .any_invalid = false};
}

}  // namespace

RunBook::RunBook(Options options, AgentGateway& hub, const Clock& clock)
    : options_(std::move(options)),
      hub_(hub),
      clock_(clock),
      router_(hub),
      hand_over_(ReadInterrupted(options_.runs_dir, kLookedAt), router_, {.lease = options_.lease}, clock),
      queue_(options_.queue) {
  hub_.SetWantsHeld([this](const HelloInfo& hello) { return hand_over_.Asked(hello); });
  loop_ = std::thread([this] {
    SetThreadName("queue");
    Loop();
  });
}

RunBook::~RunBook() {
  hub_.SetWantsHeld(nullptr);
  Drain(2);
  Wait(kNever / 2);
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  loop_.join();
}

absl::StatusOr<std::string> RunBook::Submit(Submission submission) {
  const int64_t wall = WallMicros();
  const std::string id = MakeRunId(submission.plan.name, wall);
  RunNeeds needs{
      .run = id, .match = submission.match, .agents = submission.agents, .targets = ClaimsOf(submission.plan)};
  auto run = std::make_shared<Run>(id, std::move(submission), clock_);
  run->steps = run->submission.plan.steps.size();
  run->since = clock_.Now();
  run->submitted_wall_micros = wall;
  {
    std::lock_guard lock(mutex_);
    if (draining_) {
      return MakeError(absl::StatusCode::kUnavailable, {.code = "CONTROLLER_DRAINING",
                                                        .place = "controller",
                                                        .message = "it is ending and takes no runs",
                                                        .next = "Submit the campaign when it has been started again."});
    }
    MUSTER_RETURN_IF_ERROR(queue_.Submit(std::move(needs), run->since));
    runs_.push_back(run);
  }
  Log(LogLevel::kInfo, "run={} submitted, {} steps", id, run->steps);
  changed_.notify_all();
  return id;
}

absl::StatusOr<RunBook::RunPointer> RunBook::Find(const std::string& name) {
  if (name == "last" && !runs_.empty()) return runs_.back();
  std::vector<RunPointer> fit;
  std::string known;
  size_t shown = 0;
  for (auto it = runs_.rbegin(); it != runs_.rend(); ++it) {
    if ((*it)->id == name) return *it;
    if (!name.empty() && (*it)->id.starts_with(name)) fit.push_back(*it);
    if (++shown <= 3) known += (known.empty() ? "" : ", ") + (*it)->id;
  }
  if (fit.size() == 1) return fit.front();
  if (fit.empty()) return Unknown(name, known);
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      {.code = "RUN_AMBIGUOUS",
       .place = "run " + name,
       .message = fmt::format("it is the beginning of {} ids: {}, {} ...", fit.size(), fit[0]->id, fit[1]->id),
       .next = "Give more of the id."});
}

void RunBook::EndWaiting(Run& run, const std::string& why) {
  queue_.Cancel(run.id);
  run.state = v1::RUN_STATE_ENDED;
  run.since = clock_.Now();
  run.submission.plan = {};
  run.feed.OnEnded(NotBegun(run.id, "cancelled",
                            MakeError(absl::StatusCode::kCancelled,
                                      {.code = "CANCELLED", .place = "run " + run.id, .message = why, .next = {}})));
  Forget();
}

absl::StatusOr<RunBook::Cancelled> RunBook::Cancel(const std::string& name, bool now) {
  std::lock_guard lock(mutex_);
  MUSTER_ASSIGN_OR_RETURN(const RunPointer run, Find(name));
  switch (run->state) {
    case v1::RUN_STATE_WAITING:
      EndWaiting(*run, "cancelled before it began");
      return Cancelled{.run = run->id, .waiting = true};
    case v1::RUN_STATE_RUNNING:
    case v1::RUN_STATE_ENDING:
      run->state = v1::RUN_STATE_ENDING;
      run->cancel = std::max(run->cancel.load(), now ? 2 : 1);
      Log(LogLevel::kInfo, "run={} cancel asked for{}", run->id, now ? ", at once" : "");
      return Cancelled{.run = run->id, .waiting = false};
    default:
      return MakeError(absl::StatusCode::kFailedPrecondition, {.code = "RUN_NOT_RUNNING",
                                                               .place = "run " + run->id,
                                                               .message = "it has ended",
                                                               .next = "`muster results show` shows its result."});
  }
}

absl::Status RunBook::Watch(const std::string& name, std::shared_ptr<RunWatcher> watcher) {
  RunPointer run;
  {
    std::lock_guard lock(mutex_);
    MUSTER_ASSIGN_OR_RETURN(run, Find(name));
  }
  return run->feed.Watch(std::move(watcher));
}

v1::RunList RunBook::List() {
  v1::RunList list;
  std::lock_guard lock(mutex_);
  list.set_draining(draining_);
  const Nanos now = clock_.Now();
  const auto add = [&](const Run& run) {
    v1::RunStatus& status = *list.add_runs();
    run.feed.Describe(status);
    status.set_state(run.state);
    status.set_since_ns(std::max<Nanos>(0, now - run.since));
    return &status;
  };
  for (const RunPointer& run : runs_) {
    if (run->state == v1::RUN_STATE_RUNNING || run->state == v1::RUN_STATE_ENDING) add(*run);
  }
  for (const RunQueue::Waiting& waiting : queue_.waiting()) {
    for (const RunPointer& run : runs_) {
      if (run->id != waiting.run) continue;
      v1::RunStatus* status = add(*run);
      for (const std::string& reason : waiting.waits_for) status->add_waits_for(WireText(reason, 1024));
    }
  }
  for (auto it = runs_.rbegin(); it != runs_.rend(); ++it) {
    if ((*it)->state == v1::RUN_STATE_ENDED) add(**it);
  }
  return list;
}

absl::StatusOr<std::string> RunBook::ResultPath(const std::string& name) {
  std::string wanted = name;
  {
    std::lock_guard lock(mutex_);
    auto run = Find(name);
    if (!run.ok() && GetErrorInfo(run.status()).code == "RUN_AMBIGUOUS") return run.status();
    if (run.ok()) {
      if ((*run)->state != v1::RUN_STATE_ENDED) {
        return MakeError(absl::StatusCode::kFailedPrecondition, {.code = "RUN_NOT_ENDED",
                                                                 .place = "run " + (*run)->id,
                                                                 .message = "it has not ended",
                                                                 .next = "`muster watch` shows it and its end."});
      }
      if (!(*run)->path.empty()) return (*run)->path;
      wanted = (*run)->id;
    }
  }
  // Names a client gives are ids: a path would let it read what is no run of this controller.
  if (wanted.find('/') != std::string::npos) return Unknown(wanted, {});
  MUSTER_ASSIGN_OR_RETURN(std::string path, ResolveRun(options_.runs_dir, wanted));
  if (!path.starts_with(options_.runs_dir + "/")) return Unknown(wanted, {});
  return path;
}

std::string RunBook::UserOf(const std::string& agent) {
  std::lock_guard lock(mutex_);
  return queue_.UserOf(agent);
}

void RunBook::Drain(int level) {
  std::lock_guard lock(mutex_);
  draining_ = true;
  std::vector<RunPointer> runs(runs_.begin(), runs_.end());
  for (const RunPointer& run : runs) {
    if (run->state == v1::RUN_STATE_WAITING) EndWaiting(*run, "the controller is ending");
    if (run->state != v1::RUN_STATE_RUNNING && run->state != v1::RUN_STATE_ENDING) continue;
    run->state = v1::RUN_STATE_ENDING;
    run->cancel = std::max(run->cancel.load(), level);
  }
}

bool RunBook::Wait(Nanos timeout) {
  std::unique_lock lock(mutex_);
  const auto idle = [&] {
    return std::all_of(runs_.begin(), runs_.end(),
                       [](const RunPointer& run) { return run->state == v1::RUN_STATE_ENDED; });
  };
  // wait_for adds to the present: kept far from overflow.
  return changed_.wait_for(lock, std::chrono::nanoseconds(std::min<Nanos>(timeout, 365 * 24 * kHour)), idle);
}

void RunBook::Forget() {
  size_t ended = 0, steps = 0;
  for (auto it = runs_.end(); it != runs_.begin();) {
    --it;
    if ((*it)->state != v1::RUN_STATE_ENDED) continue;
    steps += (*it)->steps;
    if (++ended > kEndedKept || (ended > 1 && steps > kEndedSteps)) it = runs_.erase(it);
  }
}

void RunBook::Loop() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    lock.unlock();
    BeginRuns();
    lock.lock();
    std::vector<std::thread> over = std::exchange(over_, {});
    lock.unlock();
    for (std::thread& thread : over) thread.join();
    lock.lock();
    if (!stop_) changed_.wait_for(lock, std::chrono::nanoseconds(kPoll));
  }
  std::vector<std::thread> over = std::exchange(over_, {});
  lock.unlock();
  for (std::thread& thread : over) thread.join();
}

void RunBook::TellJoins(const std::vector<Member>& members) {
  std::map<std::string, std::string> now;
  for (const Member& member : members) now[member.hello.agent_id] = member.hello.hostname;
  for (const auto& [id, host] : now) {
    if (!there_.contains(id)) Log(LogLevel::kInfo, "agent={} joined from {}", id, host);
  }
  for (const auto& [id, host] : there_) {
    if (!now.contains(id)) Log(LogLevel::kInfo, "agent={} left, it was on {}", id, host);
  }
  there_ = std::move(now);
}

void RunBook::BeginRuns() {
  hub_.CheckLeases();
  const std::vector<Member> members = hub_.Members();
  TellJoins(members);
  std::vector<QueueAgent> there;
  there.reserve(members.size());
  for (const Member& member : members) {
    const HelloInfo& hello = member.hello;
    if (hand_over_.Busy(hello.agent_id)) continue;
    there.push_back({.id = hello.agent_id,
                     .host = hello.host_id.empty() ? hello.hostname : hello.host_id,
                     .hostname = hello.hostname,
                     .labels = hello.labels});
  }
  std::lock_guard lock(mutex_);
  for (RunQueue::Start& start : queue_.Dispatch(there, clock_.Now())) {
    const auto found =
        std::find_if(runs_.begin(), runs_.end(), [&](const RunPointer& r) { return r->id == start.run; });
    const RunPointer run = *found;  // a run that waits is never forgotten
    run->state = v1::RUN_STATE_RUNNING;
    run->since = clock_.Now();
    run->feed.OnAgents(start.agents);
    run->thread = std::thread([this, run, agents = std::move(start.agents)] {
      SetThreadName("run");
      Execute(run, agents);
    });
  }
  for (const RunQueue::Waiting& waiting : queue_.waiting()) {
    const auto found =
        std::find_if(runs_.begin(), runs_.end(), [&](const RunPointer& r) { return r->id == waiting.run; });
    if (found != runs_.end()) (*found)->feed.OnWaits(waiting.waits_for);
  }
}

void RunBook::Execute(const RunPointer& run, const std::vector<std::string>& agents) {
  RunOptions options;
  options.runs_dir = options_.runs_dir;
  options.keep_raw = run->submission.keep_raw;
  options.deadlines = options_.deadlines;
  options.lease = options_.lease;
  options.target_places = run->submission.target_places;
  options.header = {.id = run->id,
                    .campaign_name = run->submission.plan.name,
                    .campaign_text = run->submission.campaign_text,
                    .build = options_.build,
                    .started_wall_micros = WallMicros()};
  RunOutcome outcome;
  {
    const auto gateway = router_.Open(agents);
    const size_t there = gateway->Members().size();
    if (there < agents.size()) {
      outcome = NotBegun(run->id, "failed",
                         MakeError(absl::StatusCode::kUnavailable,
                                   {.code = "AGENT_LOST",
                                    .place = "fleet",
                                    .message = fmt::format("{} of {} agents left as the run began",
                                                           agents.size() - there, agents.size()),
                                    .next = "Look at the agents' logs and submit the campaign again."}));
    } else {
      outcome = DriveRun(run->submission.plan, options, run->feed, run->cancel, *gateway, clock_);
    }
  }
  // What a client sees as ended is out of the queue and can be asked for its result.
  {
    std::lock_guard lock(mutex_);
    queue_.Ended(run->id, clock_.Now(), outcome.quiet_at);
    run->state = v1::RUN_STATE_ENDED;
    run->since = clock_.Now();
    run->path = outcome.path;
    run->submission = {};
    over_.push_back(std::move(run->thread));
    run->feed.OnEnded(outcome);
    Forget();
  }
  changed_.notify_all();
}

}  // namespace muster
