// A link that breaks and comes back within the lease: nothing is lost, nothing comes twice, the load goes on.
#include <algorithm>

#include "tests/unit/session/rig.h"

namespace muster::agent {
namespace {

HelloReply Back(uint64_t heard = 0, uint64_t received = 0, uint64_t committed = 0) {
  HelloReply reply = Rig::Welcome();
  reply.resumed = true;
  reply.link_id = 6;
  reply.heard = heard;
  reply.last_received = received;
  reply.last_committed = committed;
  return reply;
}

std::vector<uint64_t> Sent(const Rig& rig) {
  std::vector<uint64_t> sent;
  for (const Action& action : rig.last) {
    if (const auto* send = std::get_if<SendReport>(&action)) sent.push_back(send->report->sequence);
  }
  return sent;
}

IntervalDelta Interval(int64_t k) {
  IntervalDelta delta;
  delta.interval = k;
  return delta;
}

TEST_CASE("a lost link lets the load go on; Hello names the session; reports resume after what was received") {
  Rig rig;
  rig.ToRunning();
  rig.Step(EngineInterval{.engine = rig.engine, .delta = Interval(0)});
  rig.Step(EngineInterval{.engine = rig.engine, .delta = Interval(1)});
  const Nanos lease = rig.machine.lease_end();
  rig.LoseLink();
  CHECK(rig.machine.state() == State::kRunning);
  CHECK(rig.machine.lease_end() == lease);
  CHECK(rig.Did<EngineAbort>() == nullptr);
  REQUIRE(rig.Did<Dial>() != nullptr);  // at once
  const Hello& hello = rig.Did<Dial>()->hello;
  REQUIRE(hello.holds);
  CHECK(hello.held.live);
  CHECK(hello.held.controller_epoch == 77);
  CHECK(hello.held.key == Rig::Key(PhaseKind::kMeasure));
  CHECK(hello.held.last_sequence == 2);
  CHECK(hello.held.heard == rig.commands);
  rig.Step(EngineInterval{.engine = rig.engine, .delta = Interval(2)});
  CHECK(Sent(rig).empty());
  rig.Tell(Back(3, 1, 1));
  CHECK(rig.machine.state() == State::kRunning);
  CHECK(rig.Did<OpenReports>()->link_id == 6);
  CHECK(Sent(rig) == std::vector<uint64_t>{2, 3});
  CHECK(rig.machine.log().size() == 2);
  CHECK(rig.Said<Beat>() != nullptr);
  rig.AnswerBeats();
  CHECK(rig.machine.lease_end() == rig.now + Rig::kLease);
}

TEST_CASE("what was said while the link was down is said over the next one, once and in order") {
  Rig rig;
  rig.ToPreparing();
  rig.LoseLink();
  rig.Step(PrepareFinished{.status = {}, .memory_bytes = 11, .facts = {}});
  CHECK(rig.Said<PrepareDone>() == nullptr);
  CHECK(rig.machine.state() == State::kPrepared);  // what is known of the clock has to do
  rig.Tell(Back(/*heard=*/0));
  std::vector<uint64_t> seqs;
  for (const Action& action : rig.last) {
    if (const auto* say = std::get_if<Say>(&action); say != nullptr && say->seq != 0) seqs.push_back(say->seq);
  }
  CHECK(seqs == std::vector<uint64_t>{1, 2});  // AttachDone had not been heard either
  CHECK(rig.Said<AttachDone>() != nullptr);
  CHECK(rig.Said<PrepareDone>() != nullptr);
  // An acknowledgement over Beats: the next link says nothing again.
  rig.Advance(kSecond);
  rig.Tell(BeatReply{.seq = rig.last_beat,
                     .t1 = rig.last_t1,
                     .t2 = rig.now + rig.fleet_ahead,
                     .t3 = rig.now + rig.fleet_ahead,
                     .heard = 2});
  rig.LoseLink();
  rig.Tell(Back(2));
  CHECK(rig.Said<PrepareDone>() == nullptr);
}

TEST_CASE("a command that comes again is dropped by its number, one that is missing breaks the link") {
  Rig rig;
  rig.ToAttaching();
  rig.LoseLink();
  rig.Tell(Back());
  rig.Step(MessageArrived{.link = rig.link, .message = Rig::AttachOf(), .received = rig.now, .seq = 1});
  CHECK(rig.last.empty());
  CHECK(rig.machine.state() == State::kAttaching);
  rig.Step(MessageArrived{.link = rig.link, .message = Rig::DetachAll(), .received = rig.now, .seq = 3});
  CHECK(rig.Did<CloseLink>() != nullptr);
  CHECK(rig.machine.in_session());
  CHECK(rig.machine.state() == State::kAttaching);
}

TEST_CASE("another epoch, or a controller that does not know the session, ends it") {
  const bool refuses = GENERATE(true, false);
  Rig rig;
  rig.ToRunning();
  rig.Step(EngineInterval{.engine = rig.engine, .delta = Interval(0)});
  rig.LoseLink();
  HelloReply other = Rig::Welcome();
  if (refuses) {
    other.error = MakeError(absl::StatusCode::kFailedPrecondition, {"SESSION_OVER", "agent a1", "", ""});
  } else {
    other.controller_epoch = 78;
  }
  rig.Tell(other);
  CHECK(rig.machine.state() == State::kDraining);
  CHECK(rig.Did<EngineAbort>() != nullptr);
  CHECK_FALSE(rig.machine.in_session());
  rig.EndEngine();
  rig.Step(DetachFinished{});
  CHECK(rig.machine.state() == State::kDisconnected);
  CHECK(rig.machine.log().size() == 2);  // kept for hand-over
}

TEST_CASE("reports of an ended session are handed over to the controller that asks for them, else forgotten") {
  Rig rig;
  rig.ToRunning();
  rig.Step(EngineInterval{.engine = rig.engine, .delta = Interval(0)});
  rig.LoseSession();
  CHECK(rig.machine.state() == State::kDraining);
  rig.EndEngine();
  rig.Step(DetachFinished{});
  rig.AdvanceTo(rig.machine.NextDeadline());
  REQUIRE(rig.Did<Dial>() != nullptr);
  CHECK(rig.Did<Dial>()->hello.holds);
  CHECK_FALSE(rig.Did<Dial>()->hello.held.live);
  CHECK(rig.Did<Dial>()->hello.held.last_sequence == 2);
  HelloReply reply = Rig::Welcome();
  SECTION("asked for") {
    reply.wants_reports = true;
    reply.last_received = 1;
    rig.Tell(reply);
    CHECK(rig.machine.state() == State::kHandingOver);
    CHECK(Sent(rig) == std::vector<uint64_t>{2});
    rig.Step(AckArrived{.link = rig.link, .committed = 2});
    CHECK(rig.machine.state() == State::kIdle);
  }
  SECTION("not asked for") {
    rig.Tell(reply);
    CHECK(rig.machine.state() == State::kIdle);
    CHECK(rig.machine.log().empty());
    REQUIRE(rig.Did<Note>() != nullptr);
    CHECK(rig.Did<Note>()->text.find("2 reports") != std::string::npos);
  }
  SECTION("asked for by the controller that came after, which knows what is committed") {
    reply.wants_reports = true;
    reply.controller_epoch = 78;
    reply.last_committed = reply.last_received = 1;
    rig.Tell(reply);
    CHECK(rig.machine.state() == State::kHandingOver);
    CHECK(Sent(rig) == std::vector<uint64_t>{2});
    rig.Step(AckArrived{.link = rig.link, .committed = 2});
    CHECK(rig.machine.state() == State::kIdle);
    CHECK(rig.machine.log().empty());
  }
}

TEST_CASE("a link over which no Beat is answered for half a lease is dialled anew") {
  Rig rig;
  rig.ToIdle();
  const uint64_t before = rig.link;
  for (int i = 0; i < 100 && rig.link == before; ++i) rig.AdvanceTo(rig.machine.NextDeadline());
  CHECK(rig.link == before + 1);
  CHECK(rig.machine.in_session());
  CHECK(rig.now - rig.last_t1 <= Rig::kLease / 2);
}

TEST_CASE("a short lease is renewed often enough that an answer which is late costs no link") {
  Rig rig;
  rig.ToGreeting();
  HelloReply reply = Rig::Welcome();
  reply.lease = 2 * kSecond;
  rig.Tell(reply);
  rig.AnswerBeats();
  const uint64_t link = rig.link;
  // Each Beat is answered 400 ms late, for ten leases.
  const Nanos until = rig.now + 20 * kSecond;
  Nanos longest = 0, last = rig.now;
  while (rig.now < until) {
    while (!rig.Said<Beat>() && rig.now < until) rig.AdvanceTo(rig.machine.NextDeadline());
    if (!rig.Said<Beat>()) break;
    longest = std::max(longest, rig.now - last);
    last = rig.now;
    rig.now += 400 * kMillisecond;
    rig.AnswerBeat();
  }
  CHECK(rig.link == link);
  CHECK(rig.machine.in_session());
  CHECK(longest <= 900 * kMillisecond);
}

TEST_CASE("messages that nobody acknowledges are bounded: the session ends with a typed error") {
  Rig rig;
  rig.ToRunning();
  for (size_t i = 0; i < 2 * ControlLog<AgentSays>::kKept && rig.machine.in_session(); ++i) {
    rig.Step(EngineFirstIo{.engine = rig.engine});
  }
  CHECK_FALSE(rig.machine.in_session());
  REQUIRE(rig.Said<Leaving>() != nullptr);
  CHECK(GetErrorInfo(rig.Said<Leaving>()->why).code == "CONTROL_LOG_FULL");
}

TEST_CASE("a refused report ends the session, a link that is not known any more does not") {
  const bool refused = GENERATE(true, false);
  Rig rig;
  rig.ToRunning();
  const char* code = refused ? "REPORT_OUT_OF_ORDER" : "LINK_UNKNOWN";
  rig.Step(AckArrived{.link = rig.link, .error = MakeError(absl::StatusCode::kNotFound, {code, "Report", "", ""})});
  CHECK(rig.machine.in_session() != refused);
  CHECK((rig.Did<EngineAbort>() != nullptr) == refused);
  CHECK((rig.machine.state() == State::kRunning) != refused);
}

TEST_CASE("an acknowledgement that was lost with its link comes with a Beat's answer") {
  Rig rig;
  rig.ToHandingOver();
  rig.Advance(kSecond);
  rig.Tell(BeatReply{.seq = rig.last_beat,
                     .t1 = rig.last_t1,
                     .t2 = rig.now + rig.fleet_ahead,
                     .t3 = rig.now + rig.fleet_ahead,
                     .committed = 1});
  CHECK(rig.machine.log().empty());
  CHECK(rig.machine.state() == State::kAttached);
  rig.Step(AckArrived{.link = rig.link, .committed = 1});  // and late over its own stream
  CHECK(rig.machine.in_session());
}

TEST_CASE("an agent that is ended says so: nobody waits for its lease") {
  Rig rig;
  rig.ToRunning();
  rig.Step(ShutdownAsked{"signal"});
  REQUIRE(rig.Said<Leaving>() != nullptr);
  CHECK(GetErrorInfo(rig.Said<Leaving>()->why).code == "AGENT_ENDING");
}

}  // namespace
}  // namespace muster::agent
