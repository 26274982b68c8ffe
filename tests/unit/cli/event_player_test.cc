#include <catch2/catch.hpp>

#include "common/base/status.h"
#include "controller/cli/remote.h"

namespace muster {
namespace {

v1::RunEvent Planned(uint32_t steps) {
  v1::RunEvent event;
  event.mutable_planned()->set_run("r1");
  for (uint32_t i = 0; i < steps; ++i) {
    v1::PlannedStep& step = *event.mutable_planned()->add_steps();
    step.set_index(i);
    step.set_name("s" + std::to_string(i));
    step.set_load("1T4Q");
  }
  return event;
}

std::string CodeOf(const absl::Status& status) {
  return status.ok() ? "ok" : GetErrorInfo(status).code;
}

TEST_CASE("a run elsewhere is shown to its end, and its outcome is the run's") {
  EventPlayer player(ViewMode::kQuiet, SteadyClock::Get());
  CHECK(player.Play(Planned(2)).ok());
  CHECK(player.run() == "r1");
  v1::RunEvent event;
  event.mutable_phase()->set_step(1);
  event.mutable_phase()->set_phase(v1::PHASE_KIND_MEASURE);
  CHECK(player.Play(event).ok());
  event.mutable_step()->set_step(1);
  event.mutable_step()->set_outcome("VALID");
  CHECK(player.Play(event).ok());
  CHECK_FALSE(player.outcome());
  event.mutable_ended()->set_outcome("aborted");
  event.mutable_ended()->mutable_error()->set_kind(14);
  event.mutable_ended()->mutable_error()->set_code("LINK_BROKEN");
  event.mutable_ended()->set_any_invalid(true);
  CHECK(player.Play(event).ok());
  REQUIRE(player.outcome());
  CHECK(player.outcome()->outcome == "aborted");
  CHECK(player.outcome()->any_invalid);
  CHECK(CodeOf(player.outcome()->error) == "LINK_BROKEN");
}

TEST_CASE("events that make no sense are a typed error") {
  EventPlayer player(ViewMode::kQuiet, SteadyClock::Get());
  v1::RunEvent told;
  told.set_told("early");
  CHECK(CodeOf(player.Play(told)) == "EVENT_INVALID");
  CHECK(player.Play(Planned(1)).ok());
  CHECK(CodeOf(player.Play(Planned(1))) == "EVENT_INVALID");
  v1::RunEvent event;
  event.mutable_phase()->set_step(1);  // there is one step, 0
  event.mutable_phase()->set_phase(v1::PHASE_KIND_MEASURE);
  CHECK(CodeOf(player.Play(event)) == "EVENT_INVALID");
  event.mutable_phase()->set_step(0);
  event.mutable_phase()->set_phase(v1::PHASE_KIND_UNSPECIFIED);
  CHECK(CodeOf(player.Play(event)) == "EVENT_INVALID");
  event.mutable_live()->set_step(7);
  CHECK(CodeOf(player.Play(event)) == "EVENT_INVALID");
  event.mutable_step()->set_step(0);
  event.mutable_step()->set_outcome("FINE");
  CHECK(CodeOf(player.Play(event)) == "EVENT_INVALID");
  // Of a later release: nothing to this one.
  CHECK(player.Play(v1::RunEvent()).ok());

  EventPlayer unordered(ViewMode::kQuiet, SteadyClock::Get());
  v1::RunEvent plan = Planned(2);
  plan.mutable_planned()->mutable_steps()->SwapElements(0, 1);
  CHECK(CodeOf(unordered.Play(plan)) == "EVENT_INVALID");
}

}  // namespace
}  // namespace muster
