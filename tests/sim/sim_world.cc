#include "tests/sim/sim_world.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/status.h"
#include "controller/verdict/verdict.h"

namespace muster::sim {
namespace {

absl::Status StoreFull() {
  return MakeError(absl::StatusCode::kResourceExhausted,
                   {.code = "STORE_FULL", .place = "run.db", .message = "no space left", .next = {}});
}

}  // namespace

SimWorld::SimWorld(Scenario scenario, bool trace)
    : scenario_(std::move(scenario)),
      trace_(trace),
      fleet_({.api_min = 1, .api_max = 1, .build = "controller", .lease = scenario_.lease, .boot_id = "boot"}) {
  began_ = queue_.now();
  std::vector<FleetAgent> members;
  uint64_t link = 0;
  for (const SimAgent::Options& options : scenario_.agents) {
    HelloInfo hello{.api_min = 1,
                    .api_max = 1,
                    .build = "agent",
                    .agent_id = options.id,
                    .instance = ++link,
                    .host_id = options.host,
                    .boot_id = "boot of " + options.id,
                    .hostname = options.host};
    if (!fleet_.Admit(hello, link, queue_.now()).ok()) Broken("a sound agent was refused");
    Link& entry = links_[options.id];
    entry.agent = std::make_unique<SimAgent>(options, MixSeed(scenario_.seed, 2, link), queue_,
                                             [this, id = options.id](AgentSays says) {
                                               Link& from = links_[id];
                                               if (const auto* report = std::get_if<AgentReport>(&says))
                                                 from.received = std::max(from.received, report->sequence);
                                               if (std::holds_alternative<AgentGone>(says)) from.closed = true;
                                               Feed(AgentEvent{id, std::move(says), nullptr});
                                             });
    members.push_back({.id = options.id, .host_id = options.host, .hostname = options.host});
  }
  if (scenario_.stranger) {
    const auto refused = fleet_.Admit(
        {.api_min = 2, .api_max = 3, .build = "next", .agent_id = "stranger", .instance = 99}, 99, queue_.now());
    if (refused.ok() || GetErrorInfo(refused.status()).code != "API_VERSION")
      Broken("an agent of API 2..3 was admitted");
  }
  RunMachineOptions options;
  options.run_id = "sim-run";
  options.deadlines = scenario_.deadlines;
  options.lease = scenario_.lease;
  options.judge = [](const StepFigures& figures, Nanos op_timeout) { return Evaluate(figures, op_timeout); };
  machine_ = std::make_unique<RunMachine>(scenario_.plan, std::move(options), std::move(members));
  for (const auto& [id, unused] : links_) Beats(id);
  Leases();
  if (scenario_.cancel_at != kNever) queue_.At(scenario_.cancel_at, [this] { Feed(CancelAsked{1}); });
  if (scenario_.abort_at != kNever) queue_.At(scenario_.abort_at, [this] { Feed(CancelAsked{2}); });
}

SimWorld::~SimWorld() = default;

void SimWorld::Run() {
  Feed(Tick{});
  Nanos stuck_at = 0;
  int stuck = 0;
  while (!machine_->done() && broken_.empty()) {
    const Nanos due = machine_->Deadline();
    const bool tick = due <= queue_.Next();
    if (tick) {
      queue_.AdvanceTo(due);
      Feed(Tick{});
    } else {
      queue_.RunOne();
    }
    stuck = tick && queue_.now() == stuck_at ? stuck + 1 : 0;
    stuck_at = queue_.now();
    if (stuck > 100) Broken("the machine asks for the same instant over and over");
    if (elapsed() > Bound()) {
      Broken(fmt::format("not done within the sum of its deadlines, {}", FormatDuration(Bound())));
    }
  }
  if (broken_.empty()) CheckEnd();
}

void SimWorld::Feed(const RunEvent& event) {
  if (machine_->done()) return;
  if (trace_) Note(Trace(event));
  if (++feeding_ > 1) Broken("the machine was called from within itself");
  const std::vector<RunAction> actions = machine_->Step(event, queue_.now());
  --feeding_;
  for (const RunAction& action : actions) {
    if (trace_) Note(Trace(action));
    Do(action);
  }
}

void SimWorld::Note(std::string text) {
  if (text.empty()) return;
  log_.push_back(fmt::format("{:9.4f} {}", static_cast<double>(elapsed()) / 1e9, text));
}

void SimWorld::Beats(const std::string& id) {
  Link& link = links_[id];
  if (link.agent->cut()) return;
  if (!link.agent->frozen()) {
    const Member* member = fleet_.Find(id);
    if (member != nullptr) {
      const Nanos offset = link.agent->options().clock_offset;
      const Nanos latency = link.agent->options().latency;
      fleet_.OnBeat(id, member->link_id, {.seq = 1, .t1 = queue_.now() - latency - offset, .round_trip = 2 * latency},
                    queue_.now(), queue_.now());
      link.last_beat = queue_.now() - latency;
      Feed(AgentEvent{id, ClockNews{.reading = {.offset = offset, .error = latency, .round_trip = 2 * latency}},
                      nullptr});
    }
  }
  queue_.In(kSecond, [this, id] { Beats(id); });
}

void SimWorld::Leases() {
  for (const std::string& id : fleet_.Expired(queue_.now())) {
    Link& link = links_[id];
    fleet_.Remove(id, fleet_.Find(id)->link_id);
    const bool was_cut = link.agent->cut();
    link.agent->Cut();
    link.closed = true;
    if (!was_cut) {
      Feed(AgentEvent{id,
                      AgentGone{MakeError(absl::StatusCode::kUnavailable,
                                          {.code = "LEASE_ENDED", .place = id, .message = "no Beat", .next = {}})},
                      nullptr});
    }
  }
  queue_.In(100 * kMillisecond, [this] { Leases(); });
}

void SimWorld::Store(std::function<RunEvent()> answer) {
  const uint64_t number = store_operations_++;
  if (number >= scenario_.store_hangs_after) return;
  store_free_ = std::max(store_free_, queue_.now()) + scenario_.store_latency;
  queue_.At(store_free_, [this, number, answer = std::move(answer)] {
    if (number >= scenario_.store_fails_after) {
      if (!std::exchange(store_failed_, true)) Feed(StoreFailed{StoreFull()});
      return;
    }
    Feed(answer());
  });
}

void SimWorld::Do(const RunAction& action) {
  if (const auto* send = std::get_if<SendAction>(&action)) {
    Link& link = links_[send->agent];
    if (link.agent == nullptr) return Broken("a message to nobody: " + send->agent);
    if (link.closed) Broken("a message to the lost agent " + send->agent);
    if (const auto* start = std::get_if<StartCommand>(&send->command)) {
      const auto [at, fresh] = starts_.emplace(start->key, start->t0_fleet);
      if (!fresh && at->second != start->t0_fleet) Broken("start instants differ in one attempt");
      if (start->t0_fleet < queue_.now() + 500 * kMillisecond) Broken("a start instant too near");
      CheckOrphans(*start);
    }
    if (std::holds_alternative<AttachCommand>(send->command)) link.attach_sent = true;
    if (std::holds_alternative<DetachCommand>(send->command)) {
      if (std::exchange(link.detach_sent, true)) Broken("a second Detach to " + send->agent);
    }
    link.agent->Deliver(send->command);
  } else if (const auto* ack = std::get_if<AcknowledgeAction>(&action)) {
    Link& link = links_[ack->agent];
    // What was not for the store (another run's) is acknowledged once all before it is committed.
    if (!link.owed.empty() && *link.owed.begin() <= ack->sequence) Broken("acknowledged before it was committed");
    if (ack->sequence > link.received) Broken("acknowledged before it came");
    link.acknowledged = ack->sequence;
  } else if (const auto* refuse = std::get_if<RefuseReportsAction>(&action)) {
    links_[refuse->agent].closed = true;
    links_[refuse->agent].agent->Cut();
    log_.push_back("refused: " + FormatError(refuse->why));
  } else if (const auto* drop = std::get_if<DropAction>(&action)) {
    links_[drop->agent].closed = true;
    links_[drop->agent].agent->Cut();
    log_.push_back("dropped: " + FormatError(drop->why));
  } else if (std::holds_alternative<CheckSpaceAction>(action)) {
    Store([] { return SpaceChecked{}; });
  } else if (const auto* commit = std::get_if<CommitReportAction>(&action)) {
    links_[commit->report.agent].owed.insert(commit->report.sequence);
    Store([this, id = commit->report.agent, sequence = commit->report.sequence] {
      Link& link = links_[id];
      if (sequence <= link.committed) Broken("a report was committed twice");
      link.committed = sequence;
      link.owed.erase(link.owed.begin(), link.owed.upper_bound(sequence));
      return ReportsCommitted{id, sequence};
    });
  } else if (const auto* seal = std::get_if<SealStepAction>(&action)) {
    for (const auto& [id, link] : links_) {
      const auto ended = link.agent->ended().find(seal->key);
      if (ended != link.agent->ended().end() && !link.closed && link.committed < ended->second) {
        Broken(fmt::format("step {} sealed before the reports of {} were committed", seal->key.step, id));
      }
    }
    Store([step = seal->key.step] { return StepSealed{step}; });
  } else if (std::holds_alternative<FinishAction>(action)) {
    if (std::exchange(finished_, true)) Broken("finished twice");
    Store([] { return StoreFinished{}; });
  } else if (const auto* result = std::get_if<StepResultAction>(&action)) {
    if (!results_.emplace(result->result->step.index, result->result).second) Broken("a step has two outcomes");
    CheckResult(*result->result);
  } else if (const auto* tell = std::get_if<TellAction>(&action)) {
    log_.push_back(tell->text);
  }
}

void SimWorld::CheckResult(const StepResult& result) {
  log_.push_back(fmt::format("step {} {} {}", result.step.index, StepOutcomeName(result.outcome), result.message));
  if (result.outcome != StepOutcome::kValid) return;
  const uint32_t step = result.step.index;
  Histogram fleet;
  uint64_t bytes = 0;
  std::map<std::string, const GroupFigures*> groups;
  for (const GroupFigures& group : result.figures.initiators) groups[group.name] = &group;
  for (const auto& [id, link] : links_) {
    const std::vector<std::string>& left_out = result.figures.left_out;
    if (std::find(left_out.begin(), left_out.end(), id) != left_out.end()) {
      // What a lost agent delivered is in no figure of the step.
      const auto lost = link.agent->truth().find(step);
      if (lost == link.agent->truth().end()) continue;
      for (const auto& [initiator, unused] : lost->second.window) {
        if (groups.contains(std::to_string(initiator))) {
          Broken(fmt::format("step {}: initiator {} of the lost {} is in the figures", step, initiator, id));
        }
      }
      continue;
    }
    if (link.agent->options().fault == Fault::kTotalsLie && link.agent->truth().contains(step)) {
      Broken("VALID although the totals do not add up");
    }
    const auto truth = link.agent->truth().find(step);
    if (truth == link.agent->truth().end()) continue;
    bytes += truth->second.bytes;
    for (const auto& [initiator, histogram] : truth->second.window) {
      (void)fleet.Merge(histogram);
      const auto group = groups.find(std::to_string(initiator));
      if (group == groups.end() || !(group->second->kinds[0].response == histogram)) {
        Broken(fmt::format("step {} initiator {}: figures are not what the agent measured", step, initiator));
      }
    }
  }
  for (const LostFigures& lost : result.figures.lost) {
    if (lost.attempt >= result.step.first_attempt + result.figures.restarts + 60 || lost.intervals == 0 ||
        std::find(result.figures.left_out.begin(), result.figures.left_out.end(), lost.group.agent) ==
            result.figures.left_out.end()) {
      Broken(fmt::format("step {}: a row of {} that is no lost agent's", step, lost.group.agent));
    }
  }
  const KindFigures& all = result.figures.fleet.kinds[0];
  if (!(all.response == fleet) || all.completed != fleet.count() || all.bytes != bytes) {
    Broken(fmt::format("step {}: fleet figures {} ops, agents measured {}", step, all.completed, fleet.count()));
  }
  if (result.figures.intervals != result.step.measure.window_intervals) Broken("VALID with a shorter window");
  // Everybody began within its stated clock error of the one instant.
  for (const auto& [key, t0] : starts_) {
    if (key.step != step || key.phase != PhaseKind::kMeasure) continue;
    for (const auto& [id, link] : links_) {
      const auto began = link.agent->starts().find(key);
      if (began == link.agent->starts().end()) continue;
      const Nanos apart = began->second > t0 ? began->second - t0 : t0 - began->second;
      if (apart > link.agent->options().clock_error + 1) Broken("a start beyond the stated clock error");
    }
  }
}

// No load begins while a lost agent may still be at its own.
void SimWorld::CheckOrphans(const StartCommand& start) {
  for (const auto& [id, link] : links_) {
    if (!link.closed || !link.agent->loading()) continue;
    const Nanos until = link.last_beat + scenario_.lease + scenario_.plan.op_timeout;
    if (start.t0_fleet < until) {
      Broken(fmt::format("{} begins {} before the lost {} must have stopped", KeyText(start.key),
                         FormatDuration(until - start.t0_fleet), id));
    }
  }
}

void SimWorld::CheckEnd() {
  for (const muster::Step& step : scenario_.plan.steps) {
    const auto result = results_.find(step.index);
    if (result == results_.end()) {
      Broken(fmt::format("step {} has no outcome", step.index));
    } else if (!step.skip_reason.empty() && result->second->outcome != StepOutcome::kSkipped) {
      Broken("a point that cannot be measured was not skipped");
    } else if (!scenario_.Faulty() && step.skip_reason.empty() && result->second->outcome != StepOutcome::kValid) {
      Broken(fmt::format("nothing was wrong, but step {} is {}: {}", step.index,
                         StepOutcomeName(result->second->outcome), result->second->message));
    }
  }
  for (const auto& [id, link] : links_) {
    if (link.attach_sent && !link.closed && !link.detach_sent) Broken("no Detach was tried on " + id);
    if (!link.owed.empty() && *link.owed.begin() <= link.acknowledged) {
      Broken("acknowledged is not committed on " + id);
    }
  }
  const bool somebody = std::any_of(links_.begin(), links_.end(), [](const auto& link) { return !link.second.closed; });
  if (scenario_.plan.continue_on_loss && machine_->outcome() == "aborted" && somebody) {
    Broken("aborted although there was somebody to go on with");
  }
  static const std::set<std::string> kOutcomes = {"complete", "cancelled", "failed", "aborted"};
  if (!kOutcomes.contains(machine_->outcome())) Broken("no outcome: " + machine_->outcome());
  if (!scenario_.Faulty() && machine_->outcome() != "complete")
    Broken("nothing was wrong, but: " + machine_->outcome());
  if ((machine_->outcome() == "failed" || machine_->outcome() == "aborted") && machine_->error().ok()) {
    Broken("it ended " + machine_->outcome() + " without an error");
  }
}

// Sum of the deadlines over all states the plan can go through.
Nanos SimWorld::Bound() const {
  const RunMachineOptions o;
  const RunDeadlines& d = scenario_.deadlines;
  const Nanos quiet = scenario_.plan.op_timeout + d.no_progress_slack + d.answer_slack;
  const Nanos grace = d.silent_grace + 3 * scenario_.plan.interval;
  const Nanos drain = scenario_.plan.op_timeout + d.no_progress_slack + d.end_slack;
  const Nanos barrier = (o.max_repeats + 1) * (quiet + drain + d.prepared_to_start);
  const Nanos store = 60 * kSecond;
  Nanos bound = d.detach + d.answer_slack + 2 * store;
  for (const muster::Step& step : scenario_.plan.steps) {
    const Nanos intervals = Nanos{step.measure.warmup_intervals} + step.measure.window_intervals + 2;
    bound += 2 * store;                        // space, seal
    bound += 2 * (d.attach + d.answer_slack);  // guard, the others
    bound += barrier + intervals * scenario_.plan.interval + 2 * (drain + grace) + store;
    if (step.fill_passes > 0) bound += barrier + 5 * (quiet + drain + grace) + store;
  }
  // Each loss costs the wait for the lost agent and at most one more attempt of the step at hand.
  if (scenario_.plan.continue_on_loss) {
    const Nanos attempt = barrier + 9 * scenario_.plan.interval + 7 * (quiet + drain + grace) + 2 * store;
    bound += static_cast<Nanos>(links_.size()) * (scenario_.lease + kSecond + quiet + attempt);
  }
  return bound;
}

}  // namespace muster::sim
