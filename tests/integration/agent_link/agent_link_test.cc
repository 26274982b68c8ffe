// The agent's driver, engine and link in this process against a controller over a real socket.
#include <catch2/catch.hpp>
#include <thread>

#include "agent/link/grpc_link.h"
#include "agent/session/driver.h"
#include "common/base/status.h"
#include "common/wire/codec.h"
#include "common/wire/rules.h"
#include "common/wire/version.h"
#include "tests/integration/agent_link/fake_controller.h"

namespace muster {
namespace {

using agent::SessionDriver;

// A local agent on a thread.
class TestAgent {
 public:
  explicit TestAgent(const std::string& address, agent::SessionOptions session = {}) {
    agent::DriverOptions options;
    session.hello = {.api_min = kApiMin, .api_max = kApiMax, .build = "test", .agent_id = "a1", .instance = 9};
    options.session = session;
    options.engine.cpus = {};
    options.engine.max_workers = 1;
    options.pin = agent::PinMode::kNo;
    driver_ = SessionDriver::Create(options, SteadyClock::Get());
    link_ = agent::MakeGrpcLink({.endpoint = *ParseEndpoint(address)}, SteadyClock::Get(), driver_->link_listener());
    thread_ = std::thread([this] { result_ = driver_->Run(*link_); });
  }
  ~TestAgent() { End(); }
  SessionDriver::Result End() {
    if (thread_.joinable()) {
      driver_->Shutdown("test");
      thread_.join();
      link_.reset();
    }
    return result_;
  }
  SessionDriver::Result Join() {  // ends by itself
    thread_.join();
    link_.reset();
    return result_;
  }

 private:
  std::unique_ptr<SessionDriver> driver_;
  std::unique_ptr<agent::ControllerLink> link_;
  std::thread thread_;
  SessionDriver::Result result_;
};

Nanos Now() {
  return SteadyClock::Get().Now();
}

void Attach(FakeController& controller) {
  REQUIRE(controller.WaitBeats(1));
  controller.Say(AttachNull());
  const auto attached = controller.Next();
  REQUIRE(attached);
  REQUIRE(attached->has_attach_done());
  INFO(attached->DebugString());
  REQUIRE_FALSE(attached->attach_done().has_error());
}

void Prepare(FakeController& controller, uint32_t window) {
  controller.Say(PrepareMeasure(window));
  const auto prepared = controller.Next();
  REQUIRE(prepared);
  REQUIRE(prepared->has_prepare_done());
  INFO(prepared->DebugString());
  REQUIRE_FALSE(prepared->prepare_done().has_error());
}

void Start(FakeController& controller) {
  const Nanos t0 = Now() + 200 * kMillisecond;
  controller.Say(StartAt(t0));
  const auto started = controller.Next();
  REQUIRE(started);
  REQUIRE(started->has_start_done());
  REQUIRE_FALSE(started->start_done().missed());
  // One host, one clock: the offset is 0 within its stated error.
  CHECK(std::abs(started->start_done().offset_ns()) <= started->start_done().error_ns());
  CHECK(started->start_done().local_t0() + started->start_done().offset_ns() == t0);
  const auto first = controller.Next();
  REQUIRE(first);
  REQUIRE(first->has_first_io());
  CHECK(first->first_io().fleet_ns() >= t0 - started->start_done().error_ns());
}

std::string RefusalCode(const std::optional<v1::AgentMessage>& message) {
  return message && message->has_refused() ? message->refused().error().code() : "";
}

TEST_CASE("a whole phase on a null target, from Hello to Goodbye") {
  FakeController controller;
  agent::SessionOptions once;
  once.once = true;
  TestAgent agent(controller.address(), once);
  Attach(controller);
  Prepare(controller, 5);
  CHECK(controller.beats() >= 16);  // the burst
  Start(controller);
  uint64_t sequence = 0;
  uint64_t completed = 0;
  std::optional<v1::PhaseEnded> ended;
  for (int i = 0; i < 20 && !ended; ++i) {
    const auto report = controller.NextReport();
    REQUIRE(report);
    const absl::Status valid = ValidateMessage(*report);
    INFO(FormatError(valid) << report->DebugString());
    REQUIRE(valid.ok());
    CHECK(report->sequence() == ++sequence);
    CHECK(report->link_id() == 7);
    if (report->has_ended()) {
      ended = report->ended();
    } else {
      const auto delta = FromProto(report->interval());
      REQUIRE(delta.ok());
      for (const auto& initiator : delta->initiators) {
        for (const auto& kind : initiator.kinds) completed += kind.completed;
      }
    }
  }
  REQUIRE(ended);
  CHECK_FALSE(ended->has_error());
  CHECK(ended->totals().last_sequence() == sequence);
  CHECK(ended->totals().last_interval() == 4);
  const auto totals = FromProto(ended->totals());
  REQUIRE(totals.ok());
  REQUIRE(totals->initiators.size() == 1);
  CHECK(totals->initiators[0].kinds[0].completed == completed);
  CHECK(completed > 0);
  CHECK(std::abs(ended->offset_at_end() - ended->offset_at_start()) <= ended->error_at_start() + ended->error_at_end());
  controller.Say(DetachAll());
  const auto detached = controller.Next();
  REQUIRE(detached);
  CHECK(detached->has_detach_done());
  controller.Say(Bye());
  const auto result = agent.Join();
  CHECK(result.exit_code == 0);
  CHECK(result.clean);
}

TEST_CASE("a refused Hello is tried again, a version refusal is not within seconds") {
  FakeController controller;
  std::atomic<int> refusals{0};
  controller.greet = [&](const v1::Hello& hello) {
    v1::HelloReply reply;
    const bool first = refusals++ == 0;
    *reply.mutable_error() =
        first ? ToProto(MakeError(absl::StatusCode::kUnavailable, {"AGENT_ID_TAKEN", "agent a1", "two hosts", ""}))
              : ToProto(VersionRefusal(hello.agent_id(), {hello.api_min(), hello.api_max()}, hello.build(), {7, 9},
                                       "other"));
    return reply;
  };
  TestAgent agent(controller.address());
  REQUIRE(controller.WaitHellos(2));
  const auto result = agent.End();  // it is waiting for the next minute, and ends at once
  CHECK(result.clean);
  CHECK(refusals == 2);
}

TEST_CASE("a message out of order is refused and the session goes on") {
  FakeController controller;
  TestAgent agent(controller.address());
  REQUIRE(controller.WaitBeats(1));
  controller.Say(StartAt(Now() + kSecond));
  const auto refused = controller.Next();
  CHECK(RefusalCode(refused) == "MESSAGE_OUT_OF_ORDER");
  CHECK(refused->refused().key().run() == "run-1");
  controller.Say(PrepareMeasure(5));
  CHECK(RefusalCode(controller.Next()) == "MESSAGE_OUT_OF_ORDER");
  Attach(controller);
  v1::ControllerMessage stale = PrepareMeasure(5);
  stale.mutable_prepare()->mutable_key()->set_run("run-0");
  controller.Say(stale);
  CHECK(RefusalCode(controller.Next()) == "MESSAGE_STALE");
  Prepare(controller, 5);
}

TEST_CASE("malformed messages are refused by validation and by decoding, naming the field") {
  FakeController controller;
  TestAgent agent(controller.address());
  Attach(controller);
  v1::ControllerMessage prepare = PrepareMeasure(5);
  prepare.mutable_prepare()->set_interval_ns(1);  // below its rule
  controller.Say(prepare);
  auto refused = controller.Next();
  CHECK(RefusalCode(refused) == "MESSAGE_INVALID");
  CHECK(refused->refused().error().place().find("interval_ns") != std::string::npos);
  prepare = PrepareMeasure(5);
  prepare.mutable_prepare()->mutable_objects(0)->set_name("../../etc/passwd");  // no rule says that
  controller.Say(prepare);
  refused = controller.Next();
  CHECK(RefusalCode(refused) == "MESSAGE_INVALID");
  CHECK(refused->refused().error().place().find("objects[0].name") != std::string::npos);
  controller.Say(v1::ControllerMessage());
  CHECK(RefusalCode(controller.Next()) == "MESSAGE_INVALID");
  Prepare(controller, 5);  // nothing was changed
}

TEST_CASE("a target that is not allowed is refused by the attach") {
  FakeController controller;
  TestAgent agent(controller.address());
  REQUIRE(controller.WaitBeats(1));
  v1::ControllerMessage attach = AttachNull();
  *attach.mutable_attach()->mutable_target() = ToProto(Target{"cal", FileTarget{.dir = "/var/tmp/muster-not-allowed"}});
  attach.mutable_attach()->set_writes(true);
  attach.mutable_attach()->set_guard(true);
  attach.mutable_attach()->mutable_objects(0)->set_name("data");
  controller.Say(attach);
  const auto answer = controller.Next();
  REQUIRE(answer);
  REQUIRE(answer->has_attach_done());
  CHECK(answer->attach_done().error().code() == "NOT_ALLOWED");
}

TEST_CASE("an unanswered lease stops the load and ends the link; the agent dials again") {
  FakeController controller;
  controller.greet = [](const v1::Hello&) {
    v1::HelloReply reply;
    reply.set_api(kApiMax);
    reply.set_build("fake");
    reply.set_controller_epoch(42);
    reply.set_link_id(7);
    reply.set_lease_ns(2 * kSecond);
    return reply;
  };
  TestAgent agent(controller.address());
  Attach(controller);
  Prepare(controller, 10'000);
  Start(controller);
  REQUIRE(controller.NextReport());
  controller.answer_beats = false;
  const Nanos from = Now();
  REQUIRE(controller.WaitHellos(2));  // aborted, drained, detached, and back
  CHECK(Now() - from < 15 * kSecond);
  controller.answer_beats = true;
}

// gRPC's own thread destroyed a channel that was left, and itself with the last one. The address sanitizer sees that.
TEST_CASE("links that are left one after the other end without harm to the next") {
  class Greetings final : public agent::LinkListener {
   public:
    void OnMessage(uint64_t link, uint64_t, agent::ControllerSays, Nanos) override { greeted = link; }
    void OnBadMessage(uint64_t, uint64_t, PhaseKey, absl::Status) override {}
    void OnAck(uint64_t, uint64_t, absl::Status) override {}
    void OnLost(uint64_t link, absl::Status) override { lost = link; }
    std::atomic<uint64_t> greeted{0}, lost{0};
  } greetings;
  FakeController controller;
  auto link = agent::MakeGrpcLink({.endpoint = *ParseEndpoint(controller.address())}, SteadyClock::Get(), greetings);
  constexpr uint64_t kLinks = 100;
  uint64_t stood = 0;
  for (uint64_t n = 1; n <= kLinks; ++n) {
    link->Dial(n, {.api_min = kApiMin, .api_max = kApiMax, .build = "b", .agent_id = "a", .instance = 1});
    // Some are left while they are being made, some when they stand.
    const Nanos until = Now() + 60 * kSecond;
    const auto settled = [&] { return greetings.greeted == n || greetings.lost == n; };
    while (n % 2 == 0 && !settled() && Now() < until) std::this_thread::yield();
    // One that cannot be made in time is told, and dialled again by its session: never neither.
    if (n % 2 == 0) REQUIRE(settled());
    stood += greetings.greeted == n ? 1 : 0;
  }
  CHECK(stood >= 25);
}

TEST_CASE("stop now drains and ends with what was measured") {
  FakeController controller;
  TestAgent agent(controller.address());
  Attach(controller);
  Prepare(controller, 10'000);
  Start(controller);
  REQUIRE(controller.NextReport());
  controller.Say(StopNow());
  bool ended = false;
  for (int i = 0; i < 100 && !ended; ++i) {
    const auto report = controller.NextReport();
    REQUIRE(report);
    ended = report->has_ended();
    if (ended) CHECK_FALSE(report->ended().has_error());
  }
  CHECK(ended);
}

TEST_CASE("a controller that vanishes: the load stops, the agent comes back to the next one, and a shutdown ends it") {
  FakeController controller;
  TestAgent agent(controller.address());
  Attach(controller);
  Prepare(controller, 10'000);
  Start(controller);
  controller.Vanish();
  controller.Listen();
  REQUIRE(controller.WaitHellos(2));  // only after abort, drain and detach
  const Nanos from = Now();
  CHECK(agent.End().clean);
  CHECK(Now() - from < 10 * kSecond);
}

TEST_CASE("a shutdown while the load runs aborts, drains, detaches and ends") {
  FakeController controller;
  TestAgent agent(controller.address());
  Attach(controller);
  Prepare(controller, 10'000);
  Start(controller);
  const Nanos from = Now();
  const auto result = agent.End();
  CHECK(result.exit_code == 0);
  CHECK(result.clean);
  CHECK(Now() - from < 10 * kSecond);
}

TEST_CASE("nobody listens: it keeps trying, and ends when asked") {
  FakeController controller;
  controller.Vanish();
  TestAgent agent(controller.address());
  controller.Listen();
  REQUIRE(controller.WaitHellos(1));
  CHECK(agent.End().clean);
}

}  // namespace
}  // namespace muster
