#include "controller/fleet/members.h"

#include <catch2/catch.hpp>

#include "common/base/status.h"

namespace muster {
namespace {

HelloInfo Hello(const std::string& id, uint64_t instance, const std::string& host = "host-a") {
  return {.api_min = 1,
          .api_max = 2,
          .build = "agent-build",
          .agent_id = id,
          .instance = instance,
          .host_id = host,
          .boot_id = "boot-" + host,
          .hostname = host,
          .time_namespace = 4};
}

Fleet MakeFleet() {
  return Fleet({.api_min = 1,
                .api_max = 1,
                .build = "controller-build",
                .lease = 10 * kSecond,
                .boot_id = "boot-ctl",
                .time_namespace = 4,
                .max_agents = 3});
}

ErrorInfo Refusal(Fleet& fleet, const HelloInfo& hello) {
  const auto member = fleet.Admit(hello, 77, 0);
  REQUIRE_FALSE(member.ok());
  return GetErrorInfo(member.status());
}

TEST_CASE("an agent is admitted with the highest version both speak and a full lease") {
  Fleet fleet = MakeFleet();
  const auto member = fleet.Admit(Hello("a", 1), 5, 100 * kSecond);
  REQUIRE(member.ok());
  CHECK(member->member.api == 1);
  CHECK(member->member.lease_end == 110 * kSecond);
  CHECK(fleet.Find("a")->link_id == 5);
}

TEST_CASE("refusals name what is wrong and are remembered once") {
  Fleet fleet = MakeFleet();
  REQUIRE(fleet.Admit(Hello("a", 1), 1, 0).ok());

  HelloInfo next = Hello("b", 2);
  next.api_min = 2;
  next.api_max = 3;
  ErrorInfo refused = Refusal(fleet, next);
  CHECK(refused.code == "API_VERSION");
  CHECK_THAT(refused.message, Catch::Contains("2..3") && Catch::Contains("1..1") && Catch::Contains("agent-build") &&
                                  Catch::Contains("controller-build"));
  Refusal(fleet, next);
  CHECK(fleet.Refusals().size() == 1);

  refused = Refusal(fleet, Hello("a", 2, "host-b"));
  CHECK(refused.code == "AGENT_ID_TAKEN");
  CHECK_THAT(refused.message, Catch::Contains("host-a") && Catch::Contains("host-b"));

  HelloInfo turned = Hello("c", 3);
  turned.api_min = 2;
  turned.api_max = 1;
  CHECK(Refusal(fleet, turned).code == "HELLO_INVALID");
  CHECK(Refusal(fleet, Hello("", 3)).code == "HELLO_INVALID");
  CHECK(Refusal(fleet, Hello("c", 0)).code == "HELLO_INVALID");

  REQUIRE(fleet.Admit(Hello("c", 3), 3, 0).ok());
  REQUIRE(fleet.Admit(Hello("d", 4), 4, 0).ok());
  CHECK(Refusal(fleet, Hello("e", 5)).code == "FLEET_FULL");
  CHECK(fleet.size() == 3);
}

TEST_CASE("refusals kept are bounded") {
  Fleet fleet = MakeFleet();
  for (int i = 0; i < 100; ++i) {
    HelloInfo next = Hello("b" + std::to_string(i), 2);
    next.api_min = next.api_max = 9;
    Refusal(fleet, next);
  }
  CHECK(fleet.Refusals().size() == 32);
}

TEST_CASE("a lease runs from the receipt of the last Beat") {
  Fleet fleet = MakeFleet();
  REQUIRE(fleet.Admit(Hello("a", 1), 1, 0).ok());
  fleet.OnBeat("a", 1, {.seq = 1, .t1 = 0}, 4 * kSecond, 4 * kSecond);
  CHECK(fleet.Expired(14 * kSecond - 1).empty());
  CHECK(fleet.Expired(14 * kSecond) == std::vector<std::string>{"a"});
  // A Beat over another link, or of nobody, extends nothing.
  fleet.OnBeat("a", 2, {.seq = 2}, 13 * kSecond, 13 * kSecond);
  fleet.OnBeat("x", 1, {.seq = 2}, 13 * kSecond, 13 * kSecond);
  CHECK(fleet.Expired(14 * kSecond).size() == 1);
  CHECK_FALSE(fleet.Remove("a", 2));
  CHECK(fleet.Remove("a", 1));
  CHECK(fleet.Expired(kNever).empty());
  // Gone: the id is free again.
  CHECK(fleet.Admit(Hello("a", 9, "host-b"), 3, 0).ok());
}

// Beats once a second; the agent's clock is `offset` behind the controller's, `way` one way.
struct Beater {
  Nanos offset = 0, way = kMillisecond;
  uint64_t seq = 0;
  Nanos t4 = 0;
  std::vector<std::string> Beat(Fleet& fleet, const std::string& id, uint64_t link, Nanos at) {
    ++seq;
    const Nanos t2 = at + way;
    const Nanos t3 = t2 + 10 * kMicrosecond;
    const BeatInfo beat{.seq = seq, .t1 = at - offset, .previous_seq = seq - 1, .previous_t4 = seq > 1 ? t4 : 0};
    t4 = t3 + way - offset;
    return fleet.OnBeat(id, link, beat, t2, t3);
  }
};

TEST_CASE("clocks of one boot id and time namespace must agree, said once until they do again") {
  Fleet fleet = MakeFleet();
  REQUIRE(fleet.Admit(Hello("a", 1), 1, 0).ok());
  REQUIRE(fleet.Admit(Hello("b", 2), 2, 0).ok());
  Beater a{.offset = 5 * kSecond};
  Beater b{.offset = 5 * kSecond};
  for (Nanos at = 0; at < 5 * kSecond; at += kSecond) {
    CHECK(a.Beat(fleet, "a", 1, at).empty());
    CHECK(b.Beat(fleet, "b", 2, at).empty());
  }
  CHECK(fleet.Find("a")->clock.offset == 5 * kSecond);
  b.offset = 6 * kSecond;
  b.way = 100 * kMicrosecond;  // a better probe, so it is the one in use
  int told = 0;
  for (Nanos at = 5 * kSecond; at < 10 * kSecond; at += kSecond) {
    for (const std::string& text : b.Beat(fleet, "b", 2, at)) {
      ++told;
      CHECK_THAT(text, Catch::Contains("agents b and a"));
    }
  }
  CHECK(told == 1);
}

TEST_CASE("an agent on the controller's own host must measure 0 within its error") {
  Fleet fleet = MakeFleet();
  HelloInfo hello = Hello("a", 1);
  hello.boot_id = "boot-ctl";
  REQUIRE(fleet.Admit(hello, 1, 0).ok());
  Beater sound{.offset = 0};
  for (Nanos at = 0; at < 3 * kSecond; at += kSecond) CHECK(sound.Beat(fleet, "a", 1, at).empty());
  Beater wrong{.offset = kSecond, .way = kMicrosecond};
  wrong.seq = 3;
  int told = 0;
  for (Nanos at = 3 * kSecond; at < 6 * kSecond; at += kSecond) {
    told += static_cast<int>(wrong.Beat(fleet, "a", 1, at).size());
  }
  CHECK(told == 1);
}

HelloInfo Held(const std::string& id, uint64_t instance, bool live, uint64_t last_sequence = 0, uint64_t heard = 0) {
  HelloInfo hello = Hello(id, instance);
  hello.held_epoch = 55;
  hello.held_live = live;
  hello.held_heard = heard;
  hello.last_sequence = last_sequence;
  return hello;
}

Fleet MakeFleetOf(uint64_t epoch) {
  return Fleet({.api_min = 1, .api_max = 1, .lease = 10 * kSecond, .max_agents = 3, .epoch = epoch});
}

TEST_CASE("a member whose link broke stays until its lease ends, and a link of the same process takes its session up") {
  Fleet fleet = MakeFleetOf(55);
  REQUIRE(fleet.Admit(Hello("a", 1), 1, 0).ok());
  fleet.OnBeat("a", 1, {.seq = 1}, kSecond, kSecond);
  CHECK(*fleet.Hear("a", 1, 1));
  CHECK(*fleet.Command("a", DetachCommand{}) == 1);
  CHECK(*fleet.Command("a", DetachCommand{}) == 2);
  CHECK(fleet.OnReport("a", 1, 4));
  fleet.OnCommitted("a", 3);
  CHECK_FALSE(fleet.LinkDown("a", 9, 2 * kSecond));
  REQUIRE(fleet.LinkDown("a", 1, 2 * kSecond));
  CHECK(fleet.Find("a")->down_since == 2 * kSecond);
  CHECK(*fleet.Command("a", DetachCommand{}) == 3);  // kept for the next link
  // What still comes over the old link counts no more.
  CHECK_FALSE(fleet.OnReport("a", 1, 5));
  CHECK(GetErrorInfo(fleet.Hear("a", 1, 2).status()).code == "LINK_REPLACED");
  // Another process of that id has to wait, whatever host it is on.
  HelloInfo other = Hello("a", 2, "host-b");
  const ErrorInfo taken = Refusal(fleet, other);
  CHECK(taken.code == "AGENT_ID_TAKEN");
  CHECK_THAT(taken.message, Catch::Contains("host-a") && Catch::Contains("host-b") && Catch::Contains("link is down"));

  const auto back = fleet.Admit(Held("a", 1, true, 6, 1), 2, 5 * kSecond);
  REQUIRE(back.ok());
  CHECK(back->resumed);
  CHECK(back->down == 3 * kSecond);
  CHECK(back->replaced == 0);
  CHECK(back->heard == 1);
  CHECK(back->reports == 2);
  CHECK(back->member.committed == 3);
  CHECK(back->member.last_sequence == 4);
  REQUIRE(back->again.size() == 2);
  CHECK(back->again[0].seq == 2);
  CHECK(back->member.lease_end == 11 * kSecond);  // a Hello alone extends no lease
  CHECK_FALSE(*fleet.Hear("a", 2, 1));            // it was here before
  CHECK(*fleet.Hear("a", 2, 2));
  CHECK(GetErrorInfo(fleet.Hear("a", 2, 4).status()).code == "CONTROL_GAP");
  // Its end not noticed here, the process dials again: the new link takes the old one's place.
  CHECK(fleet.Admit(Held("a", 1, true, 6, 3), 3, 6 * kSecond)->replaced == 2);
  CHECK(fleet.Expired(11 * kSecond) == std::vector<std::string>{"a"});
  const auto next = fleet.Admit(other, 4, 11 * kSecond);
  REQUIRE(next.ok());
  REQUIRE(next->ended);
  CHECK(GetErrorInfo(*next->ended).code == "LEASE_ENDED");
}

TEST_CASE("a session of another controller, or one that was given up, is over") {
  Fleet fleet = MakeFleetOf(56);
  CHECK(GetErrorInfo(fleet.Admit(Held("a", 1, true), 1, 0).status()).code == "SESSION_OVER");
  CHECK(fleet.Refusals().empty());  // it comes back by itself
  Fleet same = MakeFleetOf(55);
  REQUIRE(same.Admit(Hello("a", 1), 1, 0).ok());
  REQUIRE(same.Remove("a", 1));
  CHECK(GetErrorInfo(same.Admit(Held("a", 1, true), 2, 1).status()).code == "SESSION_OVER");
  CHECK(same.size() == 0);
}

TEST_CASE("a process whose session has ended hands its reports over, if somebody collects them") {
  const bool collecting = GENERATE(true, false);
  Fleet fleet = MakeFleetOf(55);
  REQUIRE(fleet.Admit(Hello("a", 1), 1, 0).ok());
  fleet.OnBeat("a", 1, {.seq = 1}, 0, 0);
  CHECK(fleet.OnReport("a", 1, 4));
  REQUIRE(fleet.Remove("a", 1));
  fleet.OnCommitted("a", 4);  // the store was slow
  const auto back = fleet.Admit(Held("a", 1, false, 6), 2, 20 * kSecond, collecting);
  REQUIRE(back.ok());
  CHECK_FALSE(back->resumed);
  CHECK(back->wants_reports == collecting);
  CHECK(back->member.last_sequence == (collecting ? 4 : 6));
  CHECK(back->member.committed == (collecting ? 4 : 6));
  CHECK(back->reports == (collecting ? 2 : 0));
  // Another process holds nothing of this one.
  REQUIRE(fleet.Remove("a", 2));
  CHECK_FALSE(fleet.Admit(Held("a", 7, false, 9), 3, 30 * kSecond, true)->wants_reports);
}

TEST_CASE("what is held of another controller's session is wanted after what is committed, if it is wanted") {
  Fleet fleet = MakeFleetOf(56);
  // While its load goes on the session must end first, wanted or not.
  CHECK(GetErrorInfo(fleet.Admit(Held("a", 1, true, 9), 1, 0, true, 4).status()).code == "SESSION_OVER");
  const auto back = fleet.Admit(Held("a", 1, false, 9), 2, 0, true, 4);
  REQUIRE(back.ok());
  CHECK(back->wants_reports);
  CHECK(back->reports == 5);
  CHECK(back->member.last_sequence == 4);
  CHECK(back->member.committed == 4);
  // Numbers that it cannot have are those of another process.
  CHECK_FALSE(fleet.Admit(Held("b", 2, false, 3), 3, 0, true, 4)->wants_reports);
  CHECK_FALSE(fleet.Admit(Held("c", 3, false, 9), 4, 0, true)->wants_reports);
}

TEST_CASE("an agent that says its session is over is lost at once, and there anew") {
  Fleet fleet = MakeFleetOf(55);
  REQUIRE(fleet.Admit(Hello("a", 1), 1, 0).ok());
  fleet.OnBeat("a", 1, {.seq = 1}, kSecond, kSecond);
  const auto again = fleet.Admit(Held("a", 1, false), 2, 5 * kSecond);
  REQUIRE(again.ok());
  REQUIRE(again->ended);
  CHECK(GetErrorInfo(*again->ended).code == "SESSION_ENDED");
}

TEST_CASE("an agent that never heard that it was admitted does not lose the session it does not know") {
  Fleet fleet = MakeFleetOf(55);
  REQUIRE(fleet.Admit(Hello("a", 1), 1, 0).ok());
  CHECK(*fleet.Command("a", DetachCommand{}) == 1);
  const auto again = fleet.Admit(Hello("a", 1), 2, kSecond);
  REQUIRE(again.ok());
  CHECK_FALSE(again->ended);
  CHECK_FALSE(again->resumed);
  CHECK(again->again.size() == 1);
}

TEST_CASE("commands that nobody acknowledges are bounded") {
  Fleet fleet = MakeFleetOf(55);
  REQUIRE(fleet.Admit(Hello("a", 1), 1, 0).ok());
  for (size_t i = 0; i < CommandLog::kKept; ++i) REQUIRE(fleet.Command("a", DetachCommand{}).ok());
  CHECK(GetErrorInfo(fleet.Command("a", DetachCommand{}).status()).code == "CONTROL_LOG_FULL");
  CHECK(GetErrorInfo(fleet.Acknowledge("a", 1, CommandLog::kKept + 1)).code == "CONTROL_ACK");
  REQUIRE(fleet.Acknowledge("a", 1, 3).ok());
  CHECK(fleet.Command("a", DetachCommand{}).ok());
  CHECK(GetErrorInfo(fleet.Command("b", DetachCommand{}).status()).code == "AGENT_UNKNOWN");
}

}  // namespace
}  // namespace muster
