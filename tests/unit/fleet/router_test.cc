#include "controller/fleet/router.h"

#include <catch2/catch.hpp>

#include "absl/status/status.h"

namespace muster {
namespace {

class FakeHub final : public AgentGateway {
 public:
  std::vector<Member> Members() override {
    std::vector<Member> members;
    for (const char* id : {"a1", "a2", "b1"}) {
      Member member;
      member.hello.agent_id = id;
      members.push_back(member);
    }
    return members;
  }
  void SetSink(AgentSink* sink) override { this->sink = sink; }
  void Send(const std::string& agent, AgentCommand) override { sent.push_back(agent); }
  void Acknowledge(const std::string& agent, uint64_t) override { sent.push_back("ack " + agent); }
  void RefuseReports(const std::string& agent, const absl::Status&) override { sent.push_back("refuse " + agent); }
  void Drop(const std::string& agent, const absl::Status&) override { sent.push_back("drop " + agent); }
  void CheckLeases() override { ++checks; }

  AgentSink* sink = nullptr;
  std::vector<std::string> sent;
  int checks = 0;
};

class FakeSink final : public AgentSink {
 public:
  bool OnAgentEvent(AgentEvent event) override {
    if (full) return false;
    events.push_back(event.agent);
    return true;
  }
  void OnFleetNote(const std::string& text) override { notes.push_back(text); }

  bool full = false;
  std::vector<std::string> events, notes;
};

AgentEvent From(const std::string& agent) {
  return {.agent = agent, .says = AgentGone{absl::OkStatus()}, .ticket = nullptr};
}

TEST_CASE("a run sees and reaches its own agents alone") {
  FakeHub hub;
  AgentRouter router(hub);
  const auto gateway = router.Open({"a1", "b1"});
  const auto members = gateway->Members();
  REQUIRE(members.size() == 2);
  CHECK(members[0].hello.agent_id == "a1");
  CHECK(members[1].hello.agent_id == "b1");
  for (const char* agent : {"a1", "a2"}) {
    gateway->Send(agent, DetachCommand{});
    gateway->Acknowledge(agent, 3);
    gateway->RefuseReports(agent, absl::OkStatus());
    gateway->Drop(agent, absl::OkStatus());
  }
  CHECK(hub.sent == std::vector<std::string>{"a1", "ack a1", "refuse a1", "drop a1"});
  gateway->CheckLeases();
  CHECK(hub.checks == 1);
}

TEST_CASE("what an agent says goes to the run that has it, and to nobody else") {
  FakeHub hub;
  AgentRouter router(hub);
  FakeSink first, second;
  auto one = router.Open({"a1"});
  const auto two = router.Open({"a2"});
  CHECK(hub.sink->OnAgentEvent(From("a1")));  // nobody listens yet
  one->SetSink(&first);
  two->SetSink(&second);
  for (const char* agent : {"a1", "a2", "b1", "a1"}) CHECK(hub.sink->OnAgentEvent(From(agent)));
  hub.sink->OnFleetNote("clocks disagree");
  CHECK(first.events == std::vector<std::string>{"a1", "a1"});
  CHECK(second.events == std::vector<std::string>{"a2"});
  CHECK(first.notes == std::vector<std::string>{"clocks disagree"});
  CHECK(second.notes == first.notes);
  // A sink that is full is the trouble of its own agents.
  first.full = true;
  CHECK_FALSE(hub.sink->OnAgentEvent(From("a1")));
  CHECK(hub.sink->OnAgentEvent(From("a2")));
  one = nullptr;
  CHECK(hub.sink->OnAgentEvent(From("a1")));
  CHECK(first.events.size() == 2);
}

TEST_CASE("an agent is of one run at a time, and free when that is over") {
  FakeHub hub;
  AgentRouter router(hub);
  FakeSink first, second;
  auto one = router.Open({"a1"});
  auto two = router.Open({"a1", "a2"});
  one->SetSink(&first);
  two->SetSink(&second);
  CHECK(two->Members().size() == 1);
  hub.sink->OnAgentEvent(From("a1"));
  CHECK(first.events.size() == 1);
  CHECK(second.events.empty());
  two = nullptr;  // frees a2 alone
  hub.sink->OnAgentEvent(From("a1"));
  CHECK(first.events.size() == 2);
  one = nullptr;
  two = router.Open({"a1"});
  two->SetSink(&second);
  hub.sink->OnAgentEvent(From("a1"));
  CHECK(second.events.size() == 1);
}

TEST_CASE("a report that no run wants is acknowledged, so that its agent need not keep it") {
  FakeHub hub;
  AgentRouter router(hub);
  CHECK(hub.sink->OnAgentEvent({.agent = "a1", .says = AgentReport{.sequence = 7}, .ticket = nullptr}));
  CHECK(hub.sent == std::vector<std::string>{"ack a1"});
  const auto gateway = router.Open({"a1"});
  CHECK(hub.sink->OnAgentEvent({.agent = "a1", .says = AgentReport{.sequence = 8}, .ticket = nullptr}));
  CHECK(hub.sent.size() == 2);
  FakeSink sink;
  gateway->SetSink(&sink);
  CHECK(hub.sink->OnAgentEvent({.agent = "a1", .says = AgentReport{.sequence = 9}, .ticket = nullptr}));
  CHECK(hub.sent.size() == 2);  // the run's store acknowledges it
  gateway->SetSink(nullptr);
}

}  // namespace
}  // namespace muster
