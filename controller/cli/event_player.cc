#include <fmt/format.h>

#include <algorithm>

#include "common/base/status.h"
#include "common/base/units.h"
#include "common/wire/codec.h"
#include "controller/cli/json_events.h"
#include "controller/cli/output.h"
#include "controller/cli/remote.h"
#include "controller/store/figure_codec.h"

namespace muster {
namespace {

absl::Status Invalid(std::string message) {
  return MakeError(absl::StatusCode::kInternal, {.code = "EVENT_INVALID",
                                                 .place = "controller",
                                                 .message = std::move(message),
                                                 .next = "Use a client of the controller's release."});
}

LiveFigures FiguresOf(const v1::LiveNews& in) {
  LiveFigures out;
  out.interval = in.interval();
  out.in_window = in.in_window();
  out.provisional = in.provisional();
  out.iops = in.iops();
  out.bytes_per_second = in.bytes_per_second();
  out.held = in.held();
  out.p50 = in.p50_ns();
  out.p99 = in.p99_ns();
  out.p999 = in.p999_ns();
  out.max = in.max_ns();
  out.outstanding = in.outstanding();
  out.failed = in.failed();
  for (const v1::AgentLive& agent : in.agents()) {
    out.agents.push_back({.agent = agent.agent(),
                          .interval = agent.interval(),
                          .iops = agent.iops(),
                          .bytes_per_second = agent.bytes_per_second(),
                          .outstanding = agent.outstanding(),
                          .oldest_age = agent.oldest_age_ns(),
                          .cpu = agent.cpu(),
                          .silent = agent.silent()});
  }
  return out;
}

absl::StatusOr<StepOutcome> OutcomeOf(const std::string& name) {
  for (StepOutcome outcome : {StepOutcome::kValid, StepOutcome::kInvalid, StepOutcome::kOverloaded,
                              StepOutcome::kCancelled, StepOutcome::kFailed, StepOutcome::kSkipped}) {
    if (StepOutcomeName(outcome) == name) return outcome;
  }
  return Invalid("a step ended with the unknown outcome " + name);
}

}  // namespace

absl::Status EventPlayer::Planned(const v1::RunPlanned& planned) {
  if (view_ != nullptr) return Invalid("the plan came twice");
  run_ = planned.run();
  plan_.name = planned.campaign();
  for (const v1::PlannedStep& in : planned.steps()) {
    Step step;
    step.index = in.index();
    if (step.index != plan_.steps.size()) return Invalid("the steps of the plan are not in order");
    step.name = in.name();
    step.target = in.target();
    step.initiators = in.initiators();
    MUSTER_ASSIGN_OR_RETURN(step.measure.workload.load, ParseLoad(in.load()));
    for (const v1::Fact& value : in.sweep_point()) step.sweep_point.emplace_back(value.name(), value.value());
    step.estimated = in.estimated_ns();
    plan_.steps.push_back(std::move(step));
  }
  view_ = MakeRunView(mode_, plan_, clock_);
  for (const std::string& warning : planned.warnings()) view_->OnNote("warning: " + warning);
  return absl::OkStatus();
}

const Step* EventPlayer::StepOf(uint32_t index) const {
  return index < plan_.steps.size() ? &plan_.steps[index] : nullptr;
}

absl::Status EventPlayer::Play(const v1::RunEvent& event) {
  if (event.has_planned()) return Planned(event.planned());
  if (view_ == nullptr) return Invalid("the plan did not come first");
  switch (event.body_case()) {
    case v1::RunEvent::kWaits: {
      std::string text;
      for (const std::string& reason : event.waits().waits_for()) text += (text.empty() ? "" : "; ") + reason;
      if (text.empty() || text == waits_) return absl::OkStatus();
      waits_ = text;
      if (mode_ == ViewMode::kJson) {
        Out("{}\n", JsonText("waits", text));
        FlushOut();
      } else {
        view_->OnNote(fmt::format("run {} waits for {}", run_, text));
      }
      return absl::OkStatus();
    }
    case v1::RunEvent::kBegan:
      view_->OnRunStarted(run_, event.began().path());
      return absl::OkStatus();
    case v1::RunEvent::kPhase: {
      const Step* step = StepOf(event.phase().step());
      const auto kind = FromProto(event.phase().phase());
      if (step == nullptr || !kind.ok()) return Invalid("a phase of an unknown step has begun");
      const Nanos expected = event.phase().expected_ns();
      // For who came later: what is left of it.
      view_->OnPhase(*step, *kind, expected > 0 ? std::max<Nanos>(1, expected - event.phase().elapsed_ns()) : 0);
      return absl::OkStatus();
    }
    case v1::RunEvent::kFill: {
      FillProgress fill{.bytes_done = event.fill().bytes_done(),
                        .bytes_total = event.fill().bytes_total(),
                        .bytes_per_second = event.fill().bytes_per_second(),
                        .eta = {}};
      if (event.fill().has_eta_ns()) fill.eta = event.fill().eta_ns();
      view_->OnFillProgress(fill);
      return absl::OkStatus();
    }
    case v1::RunEvent::kLive: {
      const Step* step = StepOf(event.live().step());
      if (step == nullptr) return Invalid("figures of an unknown step came");
      view_->OnLive(*step, FiguresOf(event.live()));
      return absl::OkStatus();
    }
    case v1::RunEvent::kStep: {
      const Step* step = StepOf(event.step().step());
      if (step == nullptr) return Invalid("an unknown step has ended");
      StepResult result;
      result.step = *step;
      MUSTER_ASSIGN_OR_RETURN(result.outcome, OutcomeOf(event.step().outcome()));
      result.message = event.step().message();
      result.figures.interval = event.step().interval_ns();
      result.figures.intervals = event.step().intervals();
      if (event.step().has_all()) {
        MUSTER_ASSIGN_OR_RETURN(KindFigures all, DecodeKindFigures(event.step().all()));
        result.figures.fleet.kinds.push_back(std::move(all));
      }
      view_->OnStepResult(result);
      return absl::OkStatus();
    }
    case v1::RunEvent::kTold:
      view_->OnEvent(event.told());
      return absl::OkStatus();
    case v1::RunEvent::kEnded:
      outcome_ = RunOutcome{.run_id = run_,
                            .path = event.ended().path(),
                            .outcome = event.ended().outcome(),
                            .error = event.ended().has_error() ? FromProto(event.ended().error()) : absl::OkStatus(),
                            .any_invalid = event.ended().any_invalid()};
      return absl::OkStatus();
    default:
      return absl::OkStatus();  // of a later release: it says nothing to this one
  }
}

void EventPlayer::Note(const std::string& text) {
  if (view_ != nullptr) view_->OnNote(text);
}

void EventPlayer::Close() {
  if (view_ != nullptr) view_->Close();
}

}  // namespace muster
