#pragma once
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "agent/session/session_machine.h"
#include "common/base/status.h"

namespace muster::agent {

// A session under test with a clock of its own and a controller played by hand.
class Rig {
 public:
  Nanos now = 100 * kSecond;
  Nanos fleet_ahead = 7 * kSecond;  // fleet clock minus agent clock
  SessionOptions options;
  SessionMachine machine;
  std::vector<Action> last;  // actions of the last step
  uint64_t link = 0;
  uint64_t engine = 0;
  uint64_t commands = 0;  // numbered so far
  uint64_t last_beat = 0;
  Nanos last_t1 = 0;
  static constexpr Nanos kLease = 10 * kSecond;

  static SessionOptions Defaults() {
    SessionOptions o;
    o.hello = {.api_min = 1, .api_max = 1, .build = "b", .agent_id = "a1"};
    return o;
  }
  explicit Rig(const SessionOptions& o = Defaults()) : options(o), machine(o) {}

  void Step(const Event& event) {
    last = machine.Step(event, now);
    for (const Action& action : last) {
      if (const auto* dial = std::get_if<Dial>(&action)) link = dial->link;
      if (const auto* prepare = std::get_if<DoPrepare>(&action)) engine = prepare->engine;
      if (const auto* say = std::get_if<Say>(&action)) {
        if (const auto* beat = std::get_if<Beat>(&say->message)) {
          last_beat = beat->seq;
          last_t1 = beat->t1;
        }
      }
    }
  }
  // Numbered as the controller does it; a refused Hello or a new session begins anew.
  void Tell(ControllerSays message) {
    const auto kind = static_cast<MessageKind>(message.index());
    const bool numbered =
        kind != MessageKind::kHelloReply && kind != MessageKind::kBeatReply && kind != MessageKind::kGoodbye;
    if (const auto* reply = std::get_if<HelloReply>(&message); reply != nullptr && !reply->resumed) commands = 0;
    Step(
        MessageArrived{.link = link, .message = std::move(message), .received = now, .seq = numbered ? ++commands : 0});
  }
  void LoseLink() { Step(LinkLost{.link = link, .why = absl::UnavailableError("gone")}); }
  // The lease ends unanswered: with it the session, whatever it is at.
  void LoseSession() {
    LoseLink();
    for (int i = 0; i < 1'000 && machine.in_session(); ++i) AdvanceTo(std::max(now, machine.NextDeadline()));
    REQUIRE_FALSE(machine.in_session());
  }
  void AdvanceTo(Nanos to) {
    now = to;
    Step(Tick{});
  }
  void Advance(Nanos by) { AdvanceTo(now + by); }
  // Time passes as the driver lets it: a step at each deadline, Beats answered.
  void Live(Nanos by) {
    const Nanos until = now + by;
    for (int i = 0; i < 100'000 && now < until; ++i) {
      now = std::min(until, std::max(now, machine.NextDeadline()));
      Step(Tick{});
      AnswerBeats();
    }
    REQUIRE(now == until);
  }
  void AnswerBeats() {
    for (int i = 0; i < 64 && Said<Beat>(); ++i) AnswerBeat();
  }
  void AnswerBeat() {
    Tell(BeatReply{.seq = last_beat, .t1 = last_t1, .t2 = last_t1 + fleet_ahead, .t3 = now + fleet_ahead});
  }

  template <typename T>
  const T* Did() const {
    for (const Action& action : last) {
      if (const T* found = std::get_if<T>(&action)) return found;
    }
    return nullptr;
  }
  template <typename T>
  const T* Said() const {
    for (const Action& action : last) {
      const auto* say = std::get_if<muster::agent::Say>(&action);
      if (say == nullptr) continue;
      if (const T* found = std::get_if<T>(&say->message)) return found;
    }
    return nullptr;
  }
  const PhaseEnded* Ended() const {
    for (const Action& action : last) {
      const auto* send = std::get_if<SendReport>(&action);
      if (send == nullptr) continue;
      if (const auto* ended = std::get_if<PhaseEnded>(&send->report->body)) return ended;
    }
    return nullptr;
  }
  std::string RefusalCode() const {
    const auto* refused = Said<Refused>();
    return refused == nullptr ? "" : GetErrorInfo(refused->status).code;
  }

  // ---- Keys and messages
  static PhaseKey Key(PhaseKind phase, uint32_t step = 0, uint32_t attempt = 0, std::string run = "r1") {
    return {.run = std::move(run), .step = step, .phase = phase, .attempt = attempt};
  }
  static Attach AttachOf(std::string target = "t", uint32_t step = 0) {
    Attach m{.key = Key(PhaseKind::kAttach, step), .request = {}, .allowed = 60 * kSecond};
    m.request.run = m.key.run;
    m.request.target = {.name = std::move(target), .kind = NullTarget{}};
    return m;
  }
  static Prepare PrepareOf(uint32_t step = 0, uint32_t attempt = 0) {
    Prepare m{.spec = {}, .allowed = 95 * kSecond};
    m.spec.key = Key(PhaseKind::kMeasure, step, attempt);
    m.spec.target = "t";
    m.spec.initiators = {0};
    m.spec.initiator_count = m.spec.initiator_count_max = 1;
    MeasureSpec work;
    work.warmup_intervals = 1;
    work.window_intervals = 4;
    m.spec.work = work;
    return m;
  }
  static Prepare FillOf() {
    Prepare m = PrepareOf();
    m.spec.key.phase = PhaseKind::kFill;
    m.spec.work = FillSpec{};
    return m;
  }
  Start StartIn(Nanos ahead) const { return {.key = Key(PhaseKind::kMeasure), .t0_fleet = now + fleet_ahead + ahead}; }
  static Stop StopNow() { return {.key = Key(PhaseKind::kMeasure), .now = true}; }
  static Detach DetachAll() { return {.key = Key(PhaseKind::kDetach), .all = true, .target = {}}; }
  static HelloReply Welcome() {
    return {.error = {}, .api = 1, .build = "c", .controller_epoch = 77, .link_id = 5, .lease = kLease};
  }

  // ---- Ways into each state
  void ToGreeting() {
    Step(Tick{});
    REQUIRE(machine.state() == State::kGreeting);
  }
  void ToIdle() {
    ToGreeting();
    Tell(Welcome());
    REQUIRE(machine.state() == State::kIdle);
    AnswerBeats();
  }
  void ToAttaching() {
    ToIdle();
    Tell(AttachOf());
    REQUIRE(machine.state() == State::kAttaching);
  }
  void ToAttached() {
    ToAttaching();
    Step(AttachFinished{.status = {}, .generation = 3, .evidence = {{"e", "v"}}});
    REQUIRE(machine.state() == State::kAttached);
  }
  void ToInspecting() {
    ToAttached();
    Tell(Inspect{.request = 9, .items = {{.target = {.name = "x", .kind = NullTarget{}}, .objects = {}}}});
    REQUIRE(machine.state() == State::kInspecting);
  }
  void ToPreparing(const Prepare& prepare = PrepareOf()) {
    ToAttached();
    Tell(prepare);
    REQUIRE(machine.state() == State::kPreparing);
  }
  void FinishPrepare() {
    Step(PrepareFinished{.status = {}, .memory_bytes = 11, .facts = {{"f", "1"}}});
    AnswerBeats();
    REQUIRE(machine.state() == State::kPrepared);
  }
  void ToPrepared(const Prepare& prepare = PrepareOf()) {
    ToPreparing(prepare);
    FinishPrepare();
  }
  void ToArmed() {
    ToPrepared();
    Tell(StartIn(500 * kMillisecond));
    REQUIRE(machine.state() == State::kArmed);
  }
  void ToRunning() {
    ToArmed();
    Advance(500 * kMillisecond);
    REQUIRE(machine.state() == State::kRunning);
  }
  void ToDraining() {
    ToRunning();
    Tell(StopNow());
    REQUIRE(machine.state() == State::kDraining);
  }
  void EndEngine(absl::Status status = {}, bool joined = true) {
    Step(EngineEnded{.engine = engine, .totals = {}, .status = std::move(status)});
    REQUIRE(Did<DoRelease>() != nullptr);
    Step(ReleaseFinished{.joined = joined});
  }
  void ToHandingOver() {
    ToDraining();
    EndEngine();
    REQUIRE(machine.state() == State::kHandingOver);
  }
  void ToDetaching() {
    ToAttached();
    Tell(DetachAll());
    REQUIRE(machine.state() == State::kDetaching);
  }
  void ToPoisoned() {
    ToAttaching();
    Live(60 * kSecond);
    REQUIRE(machine.state() == State::kPoisoned);
  }
  void ToDisconnected() {
    ToIdle();
    LoseSession();
    REQUIRE(machine.state() == State::kDisconnected);
  }
  void ToStopped() {
    ToIdle();
    Step(ShutdownAsked{"test"});
    REQUIRE(machine.state() == State::kStopped);
  }
  void To(State state) {
    switch (state) {
      case State::kDisconnected:
        return ToDisconnected();
      case State::kGreeting:
        return ToGreeting();
      case State::kIdle:
        return ToIdle();
      case State::kAttaching:
        return ToAttaching();
      case State::kAttached:
        return ToAttached();
      case State::kInspecting:
        return ToInspecting();
      case State::kPreparing:
        return ToPreparing();
      case State::kPrepared:
        return ToPrepared();
      case State::kArmed:
        return ToArmed();
      case State::kRunning:
        return ToRunning();
      case State::kDraining:
        return ToDraining();
      case State::kHandingOver:
        return ToHandingOver();
      case State::kDetaching:
        return ToDetaching();
      case State::kPoisoned:
        return ToPoisoned();
      case State::kStopped:
        return ToStopped();
    }
  }
};

}  // namespace muster::agent
