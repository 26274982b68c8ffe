// Dialling, refusals, beats, lease, goodbye.
#include "tests/unit/session/rig.h"

namespace muster::agent {
namespace {

TEST_CASE("it dials at once, says Hello and is accepted") {
  Rig rig;
  CHECK(rig.machine.NextDeadline() <= rig.now);
  rig.Step(Tick{});
  REQUIRE(rig.Did<Dial>() != nullptr);
  CHECK(rig.Did<Dial>()->hello.agent_id == "a1");
  CHECK_FALSE(rig.Did<Dial>()->hello.holds);
  rig.Tell(Rig::Welcome());
  CHECK(rig.machine.state() == State::kIdle);
  REQUIRE(rig.Did<OpenReports>() != nullptr);
  CHECK(rig.Did<OpenReports>()->link_id == 5);
  REQUIRE(rig.Said<Beat>() != nullptr);
  CHECK(rig.Said<Beat>()->t1 == rig.now);
}

TEST_CASE("it dials again with exponential backoff of at most 2 s") {
  Rig rig;
  Nanos waits[8];
  rig.Step(Tick{});
  for (Nanos& wait : waits) {
    rig.Step(LinkLost{.link = rig.link, .why = absl::UnavailableError("refused")});
    REQUIRE(rig.machine.state() == State::kDisconnected);
    wait = rig.machine.NextDeadline() - rig.now;
    const uint64_t before = rig.link;
    rig.AdvanceTo(rig.machine.NextDeadline());
    REQUIRE(rig.link == before + 1);
  }
  CHECK(waits[0] == 100 * kMillisecond);
  CHECK(waits[1] == 200 * kMillisecond);
  CHECK(waits[7] == 2 * kSecond);
  rig.Tell(Rig::Welcome());
  rig.AnswerBeats();
  rig.LoseLink();
  CHECK(rig.Did<Dial>() != nullptr);  // an answered Beat starts the count anew: at once first
  rig.LoseLink();
  CHECK(rig.machine.NextDeadline() - rig.now == 200 * kMillisecond);
}

TEST_CASE("a refusal for API versions is retried every minute and logged once") {
  Rig rig;
  rig.Step(Tick{});
  int logged = 0;
  for (int i = 0; i < 3; ++i) {
    HelloReply refusal;
    refusal.error = MakeError(absl::StatusCode::kFailedPrecondition, {"API_VERSION", "agent a1", "1..1 and 7..9", ""});
    rig.Tell(refusal);
    if (const auto* note = rig.Did<Note>()) {
      ++logged;
      CHECK(note->text.find("7..9") != std::string::npos);
    }
    CHECK(rig.machine.state() == State::kDisconnected);
    CHECK(rig.machine.NextDeadline() - rig.now == kMinute);
    rig.Advance(kMinute);
    CHECK(rig.machine.state() == State::kGreeting);
  }
  CHECK(logged == 1);
}

TEST_CASE("another refusal is retried with backoff; an unusable answer is one") {
  Rig rig;
  rig.Step(Tick{});
  HelloReply reply = Rig::Welcome();
  reply.api = 2;
  rig.Tell(reply);
  CHECK(rig.machine.state() == State::kDisconnected);
  CHECK(rig.machine.NextDeadline() - rig.now <= 2 * kSecond);
  rig.AdvanceTo(rig.machine.NextDeadline());
  reply = Rig::Welcome();
  reply.lease = 0;
  rig.Tell(reply);
  CHECK(rig.machine.state() == State::kDisconnected);
}

TEST_CASE("a controller that does not answer Hello is given up") {
  Rig rig;
  rig.ToGreeting();
  rig.Advance(rig.options.deadlines.greeting - 1);
  CHECK(rig.machine.state() == State::kGreeting);
  rig.Advance(1);
  CHECK(rig.machine.state() == State::kDisconnected);
  CHECK(rig.Did<CloseLink>() != nullptr);
}

TEST_CASE("what comes from an earlier link is not heard") {
  Rig rig;
  rig.ToDisconnected();
  const uint64_t old = rig.link;
  rig.AdvanceTo(rig.machine.NextDeadline());
  REQUIRE(rig.link == old + 1);
  rig.Step(MessageArrived{.link = old, .message = Rig::Welcome(), .received = rig.now});
  CHECK(rig.machine.state() == State::kGreeting);
  rig.Step(LinkLost{.link = old, .why = absl::UnavailableError("late")});
  CHECK(rig.machine.state() == State::kGreeting);
  rig.Step(AckArrived{.link = old, .committed = 9});
  CHECK(rig.last.empty());
}

TEST_CASE("a Beat goes out every second and carries t4 of the one before") {
  Rig rig;
  rig.ToIdle();
  const Nanos t4 = rig.now;
  const uint64_t first = rig.last_beat;
  rig.Advance(kSecond);
  REQUIRE(rig.Said<Beat>() != nullptr);
  CHECK(rig.Said<Beat>()->seq == first + 1);
  CHECK(rig.Said<Beat>()->previous_seq == first);
  CHECK(rig.Said<Beat>()->previous_t4 == t4);
  CHECK(rig.Said<Beat>()->offset == rig.fleet_ahead);
  // Not answered: the next one goes out all the same.
  rig.Advance(kSecond);
  CHECK(rig.Said<Beat>()->seq == first + 2);
}

TEST_CASE("the lease runs from the send time of the last answered Beat") {
  Rig rig;
  rig.ToIdle();
  rig.Advance(kSecond);
  const Nanos t1 = rig.now;
  const uint64_t seq = rig.last_beat;
  rig.Advance(3 * kSecond);  // the answer is late; it must not extend the lease
  rig.Tell(BeatReply{.seq = seq, .t1 = t1, .t2 = t1 + rig.fleet_ahead, .t3 = t1 + rig.fleet_ahead});
  REQUIRE(rig.Did<SetLease>() != nullptr);
  CHECK(rig.Did<SetLease>()->end == t1 + Rig::kLease);
  // An answer to an earlier beat cannot shorten it.
  CHECK(rig.machine.lease_end() == t1 + Rig::kLease);
}

TEST_CASE("an answer nobody waits for is stale and moves no lease") {
  Rig rig;
  rig.ToIdle();
  const Nanos lease = rig.machine.lease_end();
  rig.Tell(BeatReply{.seq = rig.last_beat, .t1 = rig.last_t1, .t2 = 1, .t3 = 1});  // answered already
  CHECK(rig.RefusalCode() == "MESSAGE_STALE");
  rig.Advance(kSecond);
  rig.Tell(BeatReply{.seq = rig.last_beat, .t1 = rig.last_t1 + 1, .t2 = 1, .t3 = 1});  // another send time
  CHECK(rig.RefusalCode() == "MESSAGE_STALE");
  rig.Tell(BeatReply{.seq = rig.last_beat, .t1 = rig.last_t1, .t2 = 9, .t3 = 1});  // impossible stamps
  CHECK(rig.RefusalCode() == "CLOCK_PROBE");
  CHECK(rig.machine.lease_end() == lease);
}

TEST_CASE("the end of the lease ends the phase, keeps its reports, detaches and dials again") {
  Rig rig;
  rig.ToRunning();
  const Nanos end = rig.machine.lease_end();
  for (int i = 0; i < 100 && rig.now < end; ++i) rig.AdvanceTo(std::min(end, rig.machine.NextDeadline()));
  CHECK(rig.machine.state() == State::kDraining);
  CHECK(rig.Did<EngineAbort>() != nullptr);
  CHECK(rig.Did<CloseLink>() != nullptr);
  rig.Step(EngineInterval{.engine = rig.engine, .delta = {}});
  rig.EndEngine();
  CHECK(rig.machine.log().size() == 2);
  CHECK(rig.Did<SendReport>() == nullptr);
  CHECK(rig.Did<DoDetach>() != nullptr);
  CHECK(rig.machine.state() == State::kDetaching);
  rig.Step(DetachFinished{});
  CHECK(rig.machine.state() == State::kDisconnected);
  CHECK(rig.machine.log().size() == 2);
  rig.AdvanceTo(rig.machine.NextDeadline());
  REQUIRE(rig.Did<Dial>() != nullptr);
  CHECK(rig.Did<Dial>()->hello.holds);
  CHECK(rig.Did<Dial>()->hello.held.last_sequence == 2);
  CHECK(rig.Did<Dial>()->hello.held.key == Rig::Key(PhaseKind::kMeasure));
  CHECK(rig.Did<Dial>()->hello.held.controller_epoch == 77);
}

// The process was stopped for longer than the lease: the first thing it does is to stop.
TEST_CASE("after a stop of the process the lease is looked at first") {
  Rig rig;
  rig.ToRunning();
  rig.now += kMinute;
  rig.Step(EngineInterval{.engine = rig.engine, .delta = {}});
  CHECK(rig.machine.state() == State::kDraining);
  CHECK(rig.Did<EngineAbort>() != nullptr);
}

TEST_CASE("goodbye ends what runs; with --once the process ends with 0") {
  SessionOptions once = Rig::Defaults();
  once.once = true;
  Rig rig(once);
  rig.ToRunning();
  rig.Tell(Goodbye{.reason = "done"});
  CHECK(rig.Did<EngineAbort>() != nullptr);
  rig.EndEngine();
  rig.Step(DetachFinished{});
  REQUIRE(rig.Did<Exit>() != nullptr);
  CHECK(rig.Did<Exit>()->code == 0);
  CHECK(rig.Did<Exit>()->clean);

  Rig again;
  again.ToIdle();
  again.Tell(Goodbye{.reason = "done"});
  CHECK(again.machine.state() == State::kDisconnected);
}

TEST_CASE("with --once a lost session ends the process with 3, a lost link or a refused Hello does not") {
  SessionOptions once = Rig::Defaults();
  once.once = true;
  Rig rig(once);
  rig.ToIdle();
  rig.LoseLink();
  CHECK(rig.Did<Exit>() == nullptr);
  rig.LoseSession();
  REQUIRE(rig.Did<Exit>() != nullptr);
  CHECK(rig.Did<Exit>()->code == 3);

  Rig refused(once);
  refused.ToGreeting();
  refused.Step(LinkLost{.link = refused.link, .why = absl::UnavailableError("nobody listens")});
  CHECK(refused.machine.state() == State::kDisconnected);
}

TEST_CASE("a malformed message is refused and changes nothing; in the greeting it ends the link") {
  Rig rig;
  rig.ToAttached();
  const absl::Status bad = MakeError(absl::StatusCode::kInvalidArgument, {"MESSAGE_INVALID", "prepare.key", "no", ""});
  const PhaseKey key = Rig::Key(PhaseKind::kMeasure, 4);
  rig.Step(BadMessage{.link = rig.link, .key = key, .status = bad});
  CHECK(rig.RefusalCode() == "MESSAGE_INVALID");
  CHECK(rig.Said<Refused>()->key == key);
  CHECK(rig.machine.state() == State::kAttached);

  Rig greeting;
  greeting.ToGreeting();
  greeting.Step(BadMessage{.link = greeting.link, .key = {}, .status = bad});
  CHECK(greeting.machine.state() == State::kDisconnected);
}

TEST_CASE("a second shutdown ends at once, not cleanly") {
  Rig rig;
  rig.ToRunning();
  rig.Step(ShutdownAsked{"signal"});
  CHECK(rig.machine.state() == State::kDraining);
  rig.Step(ShutdownAsked{"signal"});
  REQUIRE(rig.Did<Exit>() != nullptr);
  CHECK(rig.Did<Exit>()->code == 3);
  CHECK_FALSE(rig.Did<Exit>()->clean);
}

}  // namespace
}  // namespace muster::agent
