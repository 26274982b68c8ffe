#include "controller/service/run_feed.h"

#include <catch2/catch.hpp>

#include "common/base/logging.h"
#include "common/base/status.h"

namespace muster {
namespace {

class FakeWatcher final : public RunWatcher {
 public:
  bool Offer(const SharedRunEvent& event) override {
    if (events.size() >= room) return false;
    events.push_back(event);
    return true;
  }
  void CutOff() override { ++cuts; }
  void End() override { ++ends; }
  bool gone() const override { return left; }
  bool detail() const override { return wants_detail; }

  // "planned began phase ..."
  std::string Kinds() const {
    static const char* const kNames[] = {"?",    "planned", "waits", "began", "phase",
                                         "fill", "live",    "step",  "told",  "ended"};
    std::string text;
    for (const auto& event : events) text += (text.empty() ? "" : " ") + std::string(kNames[event->body_case()]);
    return text;
  }

  size_t room = 1'000'000;
  std::vector<SharedRunEvent> events;
  int cuts = 0, ends = 0;
  bool left = false, wants_detail = false;
};

struct Rig {
  Rig() {
    InitLogging("test", LogLevel::kOff);
    for (uint32_t i = 0; i < 3; ++i) {
      Step step;
      step.index = i;
      step.name = "s" + std::to_string(i);
      step.target = "cal";
      step.estimated = 10 * kSecond;
      plan.steps.push_back(step);
    }
    plan.name = "db";
    feed = std::make_unique<RunFeed>("r1", plan, clock);
  }
  StepResult Result(uint32_t index) {
    StepResult result;
    result.step = plan.steps[index];
    result.outcome = StepOutcome::kValid;
    result.figures.intervals = 5;
    KindFigures all;
    all.completed = 77;
    result.figures.fleet.kinds.push_back(all);
    return result;
  }
  std::shared_ptr<FakeWatcher> Watch() {
    auto watcher = std::make_shared<FakeWatcher>();
    REQUIRE(feed->Watch(watcher).ok());
    return watcher;
  }
  v1::RunStatus Status() {
    v1::RunStatus status;
    feed->Describe(status);
    return status;
  }

  FakeClock clock{1000 * kSecond};
  Plan plan;
  std::unique_ptr<RunFeed> feed;
};

TEST_CASE("who watches from the start sees everything once, in order") {
  Rig rig;
  const auto watcher = rig.Watch();
  rig.feed->OnWaits({"agent a1, used by run r0"});
  rig.feed->OnWaits({"agent a1, used by run r0"});  // no news
  rig.feed->OnAgents({"a1"});
  rig.feed->OnRunStarted("r1", "/runs/r1/run.db");
  rig.feed->OnPhase(rig.plan.steps[0], PhaseKind::kMeasure, 5 * kSecond);
  rig.feed->OnLive(rig.plan.steps[0], {.interval = 1, .iops = 10});
  rig.feed->OnEvent("agent a1 is silent");
  rig.feed->OnStepResult(rig.Result(0));
  rig.feed->OnEnded({.run_id = "r1", .path = "/runs/r1/run.db", .outcome = "complete"});
  CHECK(watcher->Kinds() == "planned waits began phase live told step ended");
  CHECK(watcher->ends == 1);
  CHECK(watcher->events[6]->step().all().completed() == 77);
  CHECK(watcher->events[2]->began().agents(0) == "a1");
}

TEST_CASE("who comes later is told what happened, and the phase and figures at hand") {
  Rig rig;
  rig.feed->OnAgents({"a1"});
  rig.feed->OnRunStarted("r1", "/runs/r1/run.db");
  rig.feed->OnPhase(rig.plan.steps[0], PhaseKind::kFill, 0);
  rig.feed->OnFillProgress({.bytes_done = 1, .bytes_total = 2});
  rig.feed->OnStepResult(rig.Result(0));
  rig.feed->OnPhase(rig.plan.steps[1], PhaseKind::kMeasure, 5 * kSecond);
  rig.feed->OnLive(rig.plan.steps[1], {.interval = 1});
  rig.feed->OnLive(rig.plan.steps[1], {.interval = 2});
  rig.clock.Advance(2 * kSecond);
  const auto late = rig.Watch();
  CHECK(late->Kinds() == "planned began step phase live");
  CHECK_FALSE(late->events[2]->step().has_all());
  CHECK(late->events[3]->phase().elapsed_ns() == 2 * kSecond);
  CHECK(late->events[4]->live().interval() == 2);
  rig.feed->OnEnded({.run_id = "r1", .path = {}, .outcome = "complete"});
  CHECK(late->Kinds() == "planned began step phase live ended");
  const auto after = rig.Watch();
  CHECK(after->Kinds() == "planned began step ended");
  CHECK(after->ends == 1);
}

TEST_CASE("detail goes to who asked for it alone, initiators once an interval") {
  Rig rig;
  const auto plain = rig.Watch();
  CHECK_FALSE(rig.feed->WantsDetail());
  auto top = std::make_shared<FakeWatcher>();
  top->wants_detail = true;
  REQUIRE(rig.feed->Watch(top).ok());
  CHECK(rig.feed->WantsDetail());
  auto detail = std::make_shared<LiveDetail>();
  detail->agents["a1"] = LivePercentiles{.p50 = 5, .p99 = 9};
  detail->agents["a2"] = std::nullopt;
  detail->initiators = {{.initiator = 3, .agent = "a1", .iops = 7, .latency = LivePercentiles{.p50 = 4, .p99 = 8}},
                        {.initiator = 4, .agent = "a2"}};
  LiveFigures live{.interval = 1, .agents = {{.agent = "a1"}, {.agent = "a2"}}};
  live.detail = detail;
  rig.feed->OnLive(rig.plan.steps[0], live);
  rig.feed->OnLive(rig.plan.steps[0], live);
  REQUIRE(top->events.size() == 3);
  const v1::LiveNews& first = top->events[1]->live();
  REQUIRE(first.initiators_size() == 2);
  CHECK(first.initiators(0).initiator() == 3);
  CHECK(first.initiators(0).p99_ns() == 8);
  CHECK_FALSE(first.initiators(1).has_p50_ns());
  CHECK(first.agents(0).p50_ns() == 5);
  CHECK_FALSE(first.agents(1).has_p50_ns());
  CHECK(top->events[2]->live().initiators_size() == 0);
  CHECK(top->events[2]->live().agents(0).p99_ns() == 9);
  REQUIRE(plain->events.size() == 3);
  CHECK(plain->events[1]->live().initiators_size() == 0);
  CHECK_FALSE(plain->events[1]->live().agents(0).has_p50_ns());
}

TEST_CASE("a watcher that takes no more is dropped once and the others go on") {
  Rig rig;
  const auto slow = rig.Watch();
  const auto quick = rig.Watch();
  slow->room = 2;
  for (int i = 0; i < 5; ++i) rig.feed->OnEvent("text");
  CHECK(slow->events.size() == 2);
  CHECK(slow->cuts == 1);
  CHECK(slow->ends == 0);
  CHECK(quick->events.size() == 6);
  rig.feed->OnEnded({.run_id = "r1", .path = {}, .outcome = "failed"});
  CHECK(slow->ends == 0);
  CHECK(quick->ends == 1);
}

TEST_CASE("watchers and what is kept for them are bounded") {
  Rig rig;
  std::vector<std::shared_ptr<FakeWatcher>> watchers;
  for (size_t i = 0; i < RunFeed::kWatchers; ++i) watchers.push_back(rig.Watch());
  CHECK(GetErrorInfo(rig.feed->Watch(std::make_shared<FakeWatcher>())).code == "WATCHERS_FULL");
  watchers[3]->left = true;  // makes room, though the run has told nothing since
  CHECK(rig.feed->Watch(std::make_shared<FakeWatcher>()).ok());
  for (size_t i = 0; i < RunFeed::kHistory + 10; ++i) rig.feed->OnEvent("text " + std::to_string(i));
  rig.feed->OnEnded({.run_id = "r1", .path = {}, .outcome = "complete"});
  const auto late = rig.Watch();
  REQUIRE(late->events.size() == RunFeed::kHistory + 3);
  CHECK(late->events[1]->told() == "10 earlier lines are not kept");
  CHECK(late->events[2]->told() == "text 10");
}

TEST_CASE("status: step, phase, time left and share done") {
  Rig rig;
  CHECK(rig.Status().left_ns() == 30 * kSecond);
  CHECK(rig.Status().step() == 0);
  rig.feed->OnAgents({"a1", "a2"});
  rig.feed->OnRunStarted("r1", "/runs/r1/run.db");
  rig.feed->OnPhase(rig.plan.steps[1], PhaseKind::kMeasure, 5 * kSecond);
  rig.feed->OnLive(rig.plan.steps[1], {.interval = 1, .iops = 12.5});
  rig.clock.Advance(2 * kSecond);
  v1::RunStatus status = rig.Status();
  CHECK(status.left_ns() == 13 * kSecond);
  CHECK(status.progress() == Approx(1 - 13.0 / 30));
  CHECK(status.step() == 2);
  CHECK(status.step_name() == "s1");
  CHECK(status.phase() == v1::PHASE_KIND_MEASURE);
  CHECK(status.iops() == 12.5);
  CHECK(status.agents_size() == 2);
  rig.clock.Advance(20 * kSecond);  // later than expected
  CHECK(rig.Status().left_ns() == 10 * kSecond);
  rig.feed->OnEnded({.run_id = "r1", .path = "/runs/r1/run.db", .outcome = "complete"});
  status = rig.Status();
  CHECK(status.left_ns() == 0);
  CHECK(status.outcome() == "complete");
  CHECK(status.path() == "/runs/r1/run.db");
}

}  // namespace
}  // namespace muster
