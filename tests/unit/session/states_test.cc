// Every state x every message: what is accepted where, spelled out here independently of the code, and that everything
// else is refused with a typed error and changes nothing.
#include <map>
#include <set>

#include "tests/unit/session/rig.h"

namespace muster::agent {
namespace {

using S = State;
using M = MessageKind;

const std::map<S, std::set<M>>& Expected() {
  static const std::map<S, std::set<M>> table = {
      {S::kDisconnected, {}},
      {S::kGreeting, {M::kHelloReply, M::kGoodbye}},
      {S::kIdle, {M::kBeatReply, M::kGoodbye, M::kAttach, M::kInspect, M::kDetach}},
      {S::kAttaching, {M::kBeatReply, M::kGoodbye, M::kDetach}},
      {S::kAttached, {M::kBeatReply, M::kGoodbye, M::kAttach, M::kInspect, M::kPrepare, M::kDetach}},
      {S::kInspecting, {M::kBeatReply, M::kGoodbye}},
      {S::kPreparing, {M::kBeatReply, M::kGoodbye, M::kStop}},
      {S::kPrepared, {M::kBeatReply, M::kGoodbye, M::kStart, M::kStop}},
      {S::kArmed, {M::kBeatReply, M::kGoodbye, M::kStop}},
      {S::kRunning, {M::kBeatReply, M::kGoodbye, M::kStop}},
      {S::kDraining, {M::kBeatReply, M::kGoodbye, M::kStop}},
      {S::kHandingOver, {M::kBeatReply, M::kGoodbye, M::kAttach, M::kInspect, M::kPrepare, M::kDetach, M::kStop}},
      {S::kDetaching, {M::kBeatReply, M::kGoodbye}},
      {S::kPoisoned, {M::kBeatReply, M::kGoodbye, M::kDetach}},
      {S::kStopped, {}},
  };
  return table;
}

// The message as a well-meaning controller would send it next.
ControllerSays MessageFor(M kind, Rig& rig) {
  switch (kind) {
    case M::kHelloReply:
      return Rig::Welcome();
    case M::kBeatReply:
      return BeatReply{.seq = rig.last_beat, .t1 = rig.last_t1, .t2 = rig.now, .t3 = rig.now};
    case M::kAttach:
      return Rig::AttachOf("other", 1);
    case M::kInspect:
      return Inspect{.request = 1, .items = {}};
    case M::kPrepare:
      return Rig::PrepareOf(1);
    case M::kStart:
      return rig.StartIn(kSecond);
    case M::kStop:
      return Rig::StopNow();
    case M::kDetach:
      return Rig::DetachAll();
    case M::kGoodbye:
      return Goodbye{.reason = "test"};
  }
  return {};
}

TEST_CASE("each message in each state is accepted or refused as the table says") {
  REQUIRE(Expected().size() == kStates);
  for (const auto& [state, accepted] : Expected()) {
    for (int k = 0; k < kMessageKinds; ++k) {
      const auto kind = static_cast<M>(k);
      INFO(MessageName(kind) << " in state " << StateName(state));
      Rig rig;
      rig.To(state);
      if (kind == M::kBeatReply && state != S::kGreeting) {
        // One to answer.
        rig.AnswerBeats();
        if (rig.machine.link_up()) rig.Advance(std::max<Nanos>(0, rig.last_t1 + kSecond - rig.now));
        if (rig.machine.state() != state) continue;  // time moved it on: armed
      }
      const State before = rig.machine.state();
      REQUIRE(before == state);
      const Nanos lease_before = rig.machine.lease_end();
      rig.Tell(MessageFor(kind, rig));
      if (state == S::kGreeting && accepted.count(kind) == 0) {
        // Nothing can be refused before there is a session: the link is of no use.
        CHECK(rig.machine.state() == S::kDisconnected);
        CHECK(rig.Did<CloseLink>() != nullptr);
        CHECK(rig.Did<Say>() == nullptr);
      } else if (state == S::kDisconnected || state == S::kStopped) {
        CHECK(rig.last.empty());
        CHECK(rig.machine.state() == before);
      } else if (accepted.count(kind) != 0) {
        CHECK(rig.RefusalCode() == "");
      } else {
        const std::string code = rig.RefusalCode();
        const bool stale_stop = kind == M::kStop && (state == S::kAttached || state == S::kPoisoned);
        const std::string expected = stale_stop              ? "MESSAGE_STALE"
                                     : state == S::kPoisoned ? "AGENT_POISONED"
                                                             : "MESSAGE_OUT_OF_ORDER";
        CHECK(code == expected);
        CHECK(rig.machine.state() == before);
        CHECK(rig.machine.lease_end() == lease_before);
        // A refusal is a note and an answer; nothing is done.
        for (const Action& action : rig.last) {
          const bool harmless = std::holds_alternative<Note>(action) || std::holds_alternative<Say>(action);
          CHECK(harmless);
        }
      }
    }
  }
}

TEST_CASE("every state has a deadline") {
  for (const auto& [state, accepted] : Expected()) {
    INFO(StateName(state));
    Rig rig;
    rig.To(state);
    if (state == S::kStopped) continue;
    CHECK(rig.machine.NextDeadline() <= rig.now + 2 * kMinute);
  }
}

// A hung peer or host: no event but time, from every state, and the session gets out of it.
TEST_CASE("time alone leads out of every state") {
  for (const auto& [state, accepted] : Expected()) {
    if (state == S::kStopped || state == S::kDisconnected) continue;
    INFO(StateName(state));
    Rig rig;
    rig.To(state);
    bool disconnected = false;
    for (int i = 0; i < 1'000 && !disconnected; ++i) {
      rig.AdvanceTo(std::max(rig.now, rig.machine.NextDeadline()));
      disconnected = rig.machine.state() == S::kDisconnected;
    }
    CHECK(disconnected);
    CHECK(rig.now < 100 * kSecond + 10 * kMinute);
  }
}

TEST_CASE("a shutdown ends the process from every state within its deadline") {
  for (const auto& [state, accepted] : Expected()) {
    INFO(StateName(state));
    Rig rig;
    rig.To(state);
    const Nanos from = rig.now;
    rig.Step(ShutdownAsked{"signal"});
    for (int i = 0; i < 1'000 && rig.machine.state() != S::kStopped; ++i) {
      rig.AdvanceTo(std::max(rig.now, rig.machine.NextDeadline()));
    }
    CHECK(rig.machine.state() == S::kStopped);
    CHECK(rig.now - from <= rig.options.deadlines.shutdown);
  }
}

TEST_CASE("an ended session is left from every state when the work under way comes back") {
  for (const auto& [state, accepted] : Expected()) {
    if (state == S::kStopped || state == S::kDisconnected || state == S::kPoisoned) continue;
    INFO(StateName(state));
    Rig rig;
    rig.To(state);
    rig.LoseLink();
    if (state != S::kGreeting) {
      // The load goes on, until the controller says that it does not know the session.
      CHECK(rig.machine.state() == state);
      CHECK(rig.Did<EngineAbort>() == nullptr);
      HelloReply over;
      over.error = MakeError(absl::StatusCode::kFailedPrecondition, {"SESSION_OVER", "agent a1", "", ""});
      rig.Tell(over);
      CHECK_FALSE(rig.machine.in_session());
    }
    const auto answer = [&] {
      if (rig.Did<EngineAbort>() && !rig.Did<DoRelease>()) {
        rig.Step(EngineEnded{.engine = rig.engine, .totals = {}, .status = {}});
        return true;
      }
      if (rig.Did<DoRelease>()) {
        rig.Step(ReleaseFinished{.joined = true});
        return true;
      }
      if (rig.Did<DoDetach>()) {
        rig.Step(DetachFinished{});
        return true;
      }
      return false;
    };
    if (state == S::kAttaching) rig.Step(AttachFinished{});
    if (state == S::kInspecting) rig.Step(InspectFinished{});
    if (state == S::kPreparing) rig.Step(PrepareFinished{});
    if (state == S::kDetaching) rig.Step(DetachFinished{});
    if (state == S::kDraining) rig.Step(EngineEnded{.engine = rig.engine, .totals = {}, .status = {}});
    for (int i = 0; i < 8 && answer(); ++i) {
    }
    CHECK(rig.machine.state() == S::kDisconnected);
    CHECK(rig.machine.poison().empty());
    // Nothing is said into a link that is gone.
    CHECK(rig.Did<Say>() == nullptr);
  }
}

}  // namespace
}  // namespace muster::agent
