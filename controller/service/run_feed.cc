#include "controller/service/run_feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "common/wire/codec.h"
#include "common/wire/text.h"
#include "controller/store/figure_codec.h"

namespace muster {
namespace {

constexpr size_t kText = 4096;

SharedRunEvent Shared(v1::RunEvent event) {
  return std::make_shared<const v1::RunEvent>(std::move(event));
}

v1::RunEvent PlannedEvent(const std::string& run, const Plan& plan) {
  v1::RunEvent event;
  v1::RunPlanned& planned = *event.mutable_planned();
  planned.set_run(run);
  planned.set_campaign(WireText(plan.name, 64));
  for (const Step& step : plan.steps) {
    v1::PlannedStep& out = *planned.add_steps();
    out.set_index(step.index);
    out.set_name(WireText(step.name, 256));
    out.set_target(WireText(step.target, 64));
    out.set_initiators(step.initiators);
    out.set_load(FormatLoad(step.measure.workload.load));
    for (const auto& [name, value] : step.sweep_point) {
      v1::Fact& fact = *out.add_sweep_point();
      fact.set_name(WireText(name, 128));
      fact.set_value(WireText(value, kText));
    }
    out.set_estimated_ns(std::max<Nanos>(0, step.estimated));
  }
  for (const std::string& warning : plan.warnings) {
    if (planned.warnings_size() < 4096) planned.add_warnings(WireText(warning, 8192));
  }
  return event;
}

v1::RunEvent LiveEvent(const Step& step, const LiveFigures& live) {
  v1::RunEvent event;
  v1::LiveNews& out = *event.mutable_live();
  out.set_step(step.index);
  out.set_interval(live.interval);
  out.set_in_window(live.in_window);
  out.set_provisional(live.provisional);
  out.set_iops(live.iops);
  out.set_bytes_per_second(live.bytes_per_second);
  out.set_held(live.held);
  out.set_p50_ns(live.p50);
  out.set_p99_ns(live.p99);
  out.set_p999_ns(live.p999);
  out.set_max_ns(live.max);
  out.set_outstanding(live.outstanding);
  out.set_failed(live.failed);
  for (const AgentLive& agent : live.agents) {
    v1::AgentLive& to = *out.add_agents();
    to.set_agent(agent.agent);
    to.set_interval(agent.interval);
    to.set_iops(agent.iops);
    to.set_bytes_per_second(agent.bytes_per_second);
    to.set_outstanding(agent.outstanding);
    to.set_oldest_age_ns(agent.oldest_age);
    to.set_cpu(agent.cpu);
    to.set_silent(agent.silent);
  }
  return event;
}

// Initiators are sent once an interval: there may be thousands.
void AddDetail(const LiveDetail& detail, bool is_new, v1::LiveNews& out) {
  for (v1::AgentLive& agent : *out.mutable_agents()) {
    const auto found = detail.agents.find(agent.agent());
    if (found == detail.agents.end() || !found->second) continue;
    agent.set_p50_ns(found->second->p50);
    agent.set_p99_ns(found->second->p99);
  }
  if (!is_new) return;
  for (const InitiatorLive& initiator : detail.initiators) {
    v1::InitiatorLive& to = *out.add_initiators();
    to.set_initiator(initiator.initiator);
    to.set_agent(WireText(initiator.agent, 64));
    to.set_iops(initiator.iops);
    to.set_bytes_per_second(initiator.bytes_per_second);
    to.set_outstanding(initiator.outstanding);
    if (!initiator.latency) continue;
    to.set_p50_ns(initiator.latency->p50);
    to.set_p99_ns(initiator.latency->p99);
  }
  out.set_initiators_left_out(detail.left_out);
}

}  // namespace

RunFeed::RunFeed(std::string run, const Plan& plan, const Clock& clock)
    : run_(std::move(run)), clock_(clock), planned_(Shared(PlannedEvent(run_, plan))) {
  for (const Step& step : plan.steps) estimated_.push_back(std::max<Nanos>(0, step.estimated));
}

// An event's text names the agent first ("agent a1 lost: ..."), if it is about one.
std::string RunFeed::AgentNamed(const std::string& text) const {
  for (const std::string& agent : agents_) {
    if (text.starts_with("agent " + agent + " ") || text.starts_with("agent " + agent + ":")) return agent;
  }
  return {};
}

void RunFeed::LogLine(bool warning, const std::string& text) {
  std::string fields = "run=" + run_;
  if (step_ > 0) fields += fmt::format(" step={}", step_);
  if (phase_) fields += fmt::format(" phase={}", PhaseKindName(phase_kind_));
  if (const std::string agent = AgentNamed(text); !agent.empty()) fields += " agent=" + agent;
  Log(warning ? LogLevel::kWarning : LogLevel::kInfo, "{} {}", fields, text);
}

void RunFeed::Tell(v1::RunEvent event, std::optional<v1::RunEvent> detailed) {
  const SharedRunEvent shared = Shared(std::move(event));
  const SharedRunEvent full = detailed ? Shared(*std::move(detailed)) : shared;
  switch (shared->body_case()) {
    case v1::RunEvent::kBegan:
      began_ = shared;
      break;
    case v1::RunEvent::kPhase:
      phase_ = shared;
      fill_ = live_ = nullptr;
      break;
    case v1::RunEvent::kFill:
      fill_ = shared;
      break;
    case v1::RunEvent::kLive:
      live_ = shared;
      break;
    case v1::RunEvent::kEnded:
      ended_ = shared;
      break;
    case v1::RunEvent::kStep: {
      // Figures are for who watches now: of many steps they would be many megabytes.
      v1::RunEvent slim = *shared;
      slim.mutable_step()->clear_all();
      Keep(Shared(std::move(slim)));
      break;
    }
    case v1::RunEvent::kTold:
      Keep(shared);
      break;
    default:
      break;
  }
  std::erase_if(watchers_, [&](const std::shared_ptr<RunWatcher>& watcher) {
    if (watcher->Offer(watcher->detail() ? full : shared)) return false;
    watcher->CutOff();
    return true;
  });
}

void RunFeed::Keep(SharedRunEvent event) {
  history_.push_back(std::move(event));
  if (history_.size() <= kHistory) return;
  history_.pop_front();
  ++dropped_;
}

void RunFeed::OnWaits(const std::vector<std::string>& waits_for) {
  std::lock_guard lock(mutex_);
  if (waits_for == waits_for_) return;
  waits_for_ = waits_for;
  std::string text;
  v1::RunEvent event;
  event.mutable_waits();
  for (const std::string& reason : waits_for) {
    event.mutable_waits()->add_waits_for(WireText(reason, 1024));
    text += (text.empty() ? "" : "; ") + reason;
  }
  LogLine(false, "waits for " + text);
  Tell(std::move(event));
}

void RunFeed::OnAgents(std::vector<std::string> agents) {
  std::lock_guard lock(mutex_);
  agents_ = std::move(agents);
  waits_for_.clear();
}

void RunFeed::OnRunStarted(const std::string&, const std::string& path) {
  std::lock_guard lock(mutex_);
  v1::RunEvent event;
  event.mutable_began()->set_path(WireText(path, kText));
  std::string text;
  for (const std::string& agent : agents_) {
    event.mutable_began()->add_agents(agent);
    text += (text.empty() ? "" : ", ") + agent;
  }
  LogLine(false, fmt::format("started on {}, {}", text, path));
  Tell(std::move(event));
}

void RunFeed::OnPhase(const Step& step, PhaseKind phase, Nanos expected) {
  std::lock_guard lock(mutex_);
  step_ = step.index + 1;
  phase_since_ = clock_.Now();
  phase_kind_ = phase;
  v1::RunEvent event;
  event.mutable_phase()->set_step(step.index);
  event.mutable_phase()->set_phase(ToProto(PhaseKey{.run = {}, .phase = phase}).phase());
  event.mutable_phase()->set_expected_ns(std::max<Nanos>(0, expected));
  Tell(std::move(event));
  LogLine(false, fmt::format("begins: {}", step.name));
}

void RunFeed::OnFillProgress(const FillProgress& progress) {
  std::lock_guard lock(mutex_);
  v1::RunEvent event;
  event.mutable_fill()->set_bytes_done(progress.bytes_done);
  event.mutable_fill()->set_bytes_total(progress.bytes_total);
  event.mutable_fill()->set_bytes_per_second(progress.bytes_per_second);
  if (progress.eta) event.mutable_fill()->set_eta_ns(*progress.eta);
  Tell(std::move(event));
}

void RunFeed::OnLive(const Step& step, const LiveFigures& live) {
  std::lock_guard lock(mutex_);
  v1::RunEvent event = LiveEvent(step, live);
  std::optional<v1::RunEvent> detailed;
  if (live.detail != nullptr) {
    detailed = event;
    AddDetail(*live.detail, live.detail != detail_, *detailed->mutable_live());
  }
  detail_ = live.detail;
  Tell(std::move(event), std::move(detailed));
}

bool RunFeed::WantsDetail() const {
  std::lock_guard lock(mutex_);
  return std::any_of(watchers_.begin(), watchers_.end(), [](const auto& watcher) { return watcher->detail(); });
}

void RunFeed::OnStepResult(const StepResult& result) {
  std::lock_guard lock(mutex_);
  v1::RunEvent event;
  v1::StepEnded& out = *event.mutable_step();
  out.set_step(result.step.index);
  out.set_outcome(std::string(StepOutcomeName(result.outcome)));
  out.set_message(WireText(result.message, kText));
  out.set_interval_ns(result.figures.interval);
  out.set_intervals(result.figures.intervals);
  if (!result.figures.fleet.kinds.empty() && result.figures.intervals > 0) {
    *out.mutable_all() = EncodeKindFigures(result.figures.fleet.kinds.front());
  }
  step_ = result.step.index + 1;
  LogLine(result.outcome == StepOutcome::kFailed || result.outcome == StepOutcome::kInvalid,
          fmt::format("{} is {}{}{}", result.step.name, StepOutcomeName(result.outcome),
                      result.message.empty() ? "" : ": ", result.message));
  Tell(std::move(event));
}

void RunFeed::OnEvent(const std::string& text) {
  std::lock_guard lock(mutex_);
  LogLine(true, text);
  v1::RunEvent event;
  event.set_told(WireText(text, 8192));
  Tell(std::move(event));
}

void RunFeed::OnEnded(const RunOutcome& outcome) {
  std::lock_guard lock(mutex_);
  v1::RunEvent event;
  v1::RunEnded& out = *event.mutable_ended();
  out.set_outcome(outcome.outcome);
  if (!outcome.error.ok()) *out.mutable_error() = ToProto(outcome.error);
  out.set_any_invalid(outcome.any_invalid);
  out.set_path(WireText(outcome.path, kText));
  phase_ = fill_ = live_ = nullptr;
  LogLine(outcome.outcome != "complete" && outcome.outcome != "cancelled",
          fmt::format("ended: {}{}", outcome.outcome, outcome.error.ok() ? "" : ", " + FormatError(outcome.error)));
  Tell(std::move(event));
  for (const auto& watcher : watchers_) watcher->End();
  watchers_.clear();
}

absl::Status RunFeed::Watch(std::shared_ptr<RunWatcher> watcher) {
  std::lock_guard lock(mutex_);
  // A run that waits tells nothing for long, so those that left it are found here.
  std::erase_if(watchers_, [](const auto& other) { return other->gone(); });
  if (watchers_.size() >= kWatchers) {
    return MakeError(absl::StatusCode::kResourceExhausted,
                     {.code = "WATCHERS_FULL",
                      .place = "run " + run_,
                      .message = fmt::format("{} clients watch this run, the limit", kWatchers),
                      .next = "End one of them; `muster status` shows progress too."});
  }
  std::vector<SharedRunEvent> past = {planned_};
  if (!waits_for_.empty()) {
    v1::RunEvent event;
    for (const std::string& reason : waits_for_) event.mutable_waits()->add_waits_for(WireText(reason, 1024));
    past.push_back(Shared(std::move(event)));
  }
  if (began_) past.push_back(began_);
  if (dropped_ > 0) {
    v1::RunEvent event;
    event.set_told(fmt::format("{} earlier lines are not kept", dropped_));
    past.push_back(Shared(std::move(event)));
  }
  past.insert(past.end(), history_.begin(), history_.end());
  if (phase_) {
    v1::RunEvent event = *phase_;
    event.mutable_phase()->set_elapsed_ns(std::max<Nanos>(0, clock_.Now() - phase_since_));
    past.push_back(Shared(std::move(event)));
  }
  if (fill_) past.push_back(fill_);
  if (live_) past.push_back(live_);
  if (ended_) past.push_back(ended_);
  for (const SharedRunEvent& event : past) {
    if (watcher->Offer(event)) continue;
    watcher->CutOff();
    return absl::OkStatus();
  }
  if (ended_) {
    watcher->End();
  } else {
    watchers_.push_back(std::move(watcher));
  }
  return absl::OkStatus();
}

void RunFeed::Describe(v1::RunStatus& status) const {
  std::lock_guard lock(mutex_);
  status.set_run(run_);
  status.set_campaign(planned_->planned().campaign());
  for (const std::string& agent : agents_) status.add_agents(agent);
  status.set_steps(static_cast<uint32_t>(estimated_.size()));
  status.set_step(step_);
  if (step_ > 0 && step_ <= estimated_.size()) {
    status.set_step_name(planned_->planned().steps(static_cast<int>(step_) - 1).name());
  }
  const Nanos total = std::accumulate(estimated_.begin(), estimated_.end(), Nanos{0});
  Nanos left =
      std::accumulate(estimated_.begin() + std::min<size_t>(step_, estimated_.size()), estimated_.end(), Nanos{0});
  if (phase_) {
    status.set_phase(phase_->phase().phase());
    left += std::max<Nanos>(0, phase_->phase().expected_ns() - (clock_.Now() - phase_since_));
  }
  if (ended_) {
    left = 0;
    status.set_outcome(ended_->ended().outcome());
    status.set_path(ended_->ended().path());
  } else if (began_) {
    status.set_path(began_->began().path());
  }
  status.set_left_ns(left);
  status.set_progress(total > 0 ? std::clamp(1.0 - static_cast<double>(left) / static_cast<double>(total), 0.0, 1.0)
                                : 0);
  if (live_) status.set_iops(live_->live().iops());
}

}  // namespace muster
