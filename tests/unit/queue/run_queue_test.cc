#include "controller/queue/run_queue.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "common/base/rng.h"
#include "common/base/status.h"

namespace muster {
namespace {

QueueAgent Agent(const std::string& id, Labels labels = {}, const std::string& host = "h1") {
  return {.id = id, .host = host, .hostname = host + ".example", .labels = std::move(labels)};
}

RunNeeds Needs(const std::string& run, uint32_t agents = 0, Labels match = {}, std::vector<TargetClaim> targets = {}) {
  return {.run = run, .match = std::move(match), .agents = agents, .targets = std::move(targets)};
}

TargetClaim Lun(const std::string& name) {
  return {.what = "iscsi " + name, .shown = "LUN 0 of " + name, .remote = true};
}
TargetClaim Dir(const std::string& path) {
  return {.what = "dir " + path, .shown = "directory " + path};
}

// "r1:a,b r2:c"
std::string Starts(RunQueue& queue, const std::vector<QueueAgent>& there, Nanos now = 0) {
  std::string text;
  for (const RunQueue::Start& start : queue.Dispatch(there, now)) {
    text += (text.empty() ? "" : " ") + start.run + ":";
    for (size_t i = 0; i < start.agents.size(); ++i) text += (i > 0 ? "," : "") + start.agents[i];
  }
  return text;
}

std::vector<std::string> WaitsFor(const RunQueue& queue, const std::string& run) {
  for (const auto& waiting : queue.waiting()) {
    if (waiting.run == run) return waiting.waits_for;
  }
  return {"not waiting"};
}

void Submit(RunQueue& queue, RunNeeds needs, Nanos now = 0) {
  REQUIRE(queue.Submit(std::move(needs), now).ok());
}

TEST_CASE("a run takes all agents that match and are there, and gives them back") {
  RunQueue queue;
  Submit(queue, Needs("r1"));
  CHECK(Starts(queue, {}).empty());
  CHECK(WaitsFor(queue, "r1") == std::vector<std::string>{"agents: 0 of those that match anything are there"});
  CHECK(Starts(queue, {Agent("a1"), Agent("a2")}) == "r1:a1,a2");
  CHECK(queue.UserOf("a1") == "r1");
  CHECK(queue.waiting().empty());
  Submit(queue, Needs("r2"));
  CHECK(Starts(queue, {Agent("a1"), Agent("a2")}).empty());
  CHECK(WaitsFor(queue, "r2") == std::vector<std::string>{"agent a1, used by run r1", "agent a2, used by run r1"});
  queue.Ended("r1");
  CHECK(queue.UserOf("a1").empty());
  CHECK(Starts(queue, {Agent("a1"), Agent("a2")}) == "r2:a1,a2");
}

TEST_CASE("a number of agents is waited for and not exceeded") {
  RunQueue queue;
  Submit(queue, Needs("r1", 2));
  CHECK(Starts(queue, {Agent("a1")}).empty());
  CHECK(WaitsFor(queue, "r1") == std::vector<std::string>{"agents: 1 of the 2 that match anything are there"});
  CHECK(Starts(queue, {Agent("a1"), Agent("a2"), Agent("a3")}) == "r1:a1,a2");
  // Others remain for the next.
  Submit(queue, Needs("r2", 1));
  CHECK(Starts(queue, {Agent("a1"), Agent("a2"), Agent("a3")}) == "r2:a3");
}

TEST_CASE("labels choose, and runs on disjoint agents go on at the same time") {
  RunQueue queue;
  const std::vector<QueueAgent> there = {Agent("a1", {{"rack", "a"}}), Agent("b1", {{"rack", "b"}, {"net", "fast"}}),
                                         Agent("b2", {{"rack", "b"}})};
  Submit(queue, Needs("r1", 0, {{"rack", "b"}}));
  Submit(queue, Needs("r2", 0, {{"rack", "a"}}));
  Submit(queue, Needs("r3", 0, {{"rack", "b"}, {"net", "fast"}}));
  Submit(queue, Needs("r4", 0, {{"rack", "z"}}));
  CHECK(Starts(queue, there) == "r1:b1,b2 r2:a1");
  CHECK(WaitsFor(queue, "r3") == std::vector<std::string>{"agent b1, used by run r1"});
  CHECK(WaitsFor(queue, "r4") == std::vector<std::string>{"agents: 0 of those that match rack=z are there"});
}

TEST_CASE("two runs never share a target, wherever they reach it from") {
  RunQueue queue;
  const std::vector<QueueAgent> there = {Agent("a1", {}, "h1"), Agent("a2", {}, "h2")};
  Submit(queue, Needs("r1", 1, {}, {Lun("iqn.x")}));
  Submit(queue, Needs("r2", 1, {}, {Lun("iqn.x")}));
  CHECK(Starts(queue, there) == "r1:a1");
  CHECK(WaitsFor(queue, "r2") == std::vector<std::string>{"target LUN 0 of iqn.x, used by run r1"});
  queue.Ended("r1");
  CHECK(Starts(queue, there) == "r2:a1");
}

TEST_CASE("local targets clash on one host alone") {
  RunQueue queue;
  const std::vector<QueueAgent> there = {Agent("a1", {{"n", "1"}}, "h1"), Agent("a2", {{"n", "2"}}, "h1"),
                                         Agent("b1", {{"n", "3"}}, "h2")};
  Submit(queue, Needs("r1", 0, {{"n", "1"}}, {Dir("/srv")}));
  Submit(queue, Needs("r2", 0, {{"n", "2"}}, {Dir("/srv")}));
  Submit(queue, Needs("r3", 0, {{"n", "3"}}, {Dir("/srv")}));
  CHECK(Starts(queue, there) == "r1:a1 r3:b1");
  CHECK(WaitsFor(queue, "r2") == std::vector<std::string>{"target directory /srv on h1.example, used by run r1"});
}

TEST_CASE("a run that waits for another is not overtaken") {
  RunQueue queue;
  const std::vector<QueueAgent> there = {Agent("a1"), Agent("a2")};
  Submit(queue, Needs("small", 1));
  CHECK(Starts(queue, there) == "small:a1");
  Submit(queue, Needs("large", 2));
  Submit(queue, Needs("late", 1));
  CHECK(Starts(queue, there).empty());
  CHECK(WaitsFor(queue, "late") ==
        std::vector<std::string>{"agent a1, used by run small", "agent a2, kept for run large, which came first"});
  queue.Ended("small");
  CHECK(Starts(queue, there) == "large:a1,a2");
  queue.Ended("large");
  CHECK(Starts(queue, there) == "late:a1");
}

TEST_CASE("the targets of a run that waits are kept for it too") {
  RunQueue queue;
  const std::vector<QueueAgent> there = {Agent("a1", {{"n", "1"}}), Agent("a2", {{"n", "2"}})};
  Submit(queue, Needs("r1", 0, {{"n", "1"}}));
  Submit(queue, Needs("r2", 0, {{"n", "1"}}, {Lun("iqn.x")}));
  Submit(queue, Needs("r3", 0, {{"n", "2"}}, {Lun("iqn.x")}));
  CHECK(Starts(queue, there) == "r1:a1");
  CHECK(WaitsFor(queue, "r3") == std::vector<std::string>{"target LUN 0 of iqn.x, kept for run r2, which came first"});
}

TEST_CASE("a run whose agents are not there keeps nothing, and has its turn when they come") {
  RunQueue queue;
  Submit(queue, Needs("absent", 2, {}, {Lun("iqn.x")}));
  Submit(queue, Needs("r2", 1, {}, {Lun("iqn.x")}));
  CHECK(Starts(queue, {Agent("a1")}) == "r2:a1");
  Submit(queue, Needs("r3", 1));
  CHECK(Starts(queue, {Agent("a1"), Agent("a2")}).empty());  // a2 is kept for `absent` now
  CHECK(WaitsFor(queue, "r3").front() == "agent a1, used by run r2");
  queue.Ended("r2");
  CHECK(Starts(queue, {Agent("a1"), Agent("a2")}) == "absent:a1,a2");
}

TEST_CASE("waiting runs are bounded, running ones too") {
  RunQueue queue({.waiting = 2, .running = 1});
  Submit(queue, Needs("r1", 1));
  CHECK(Starts(queue, {Agent("a1"), Agent("a2")}) == "r1:a1");
  Submit(queue, Needs("r2", 1));
  Submit(queue, Needs("r3", 1), 7);
  const absl::Status full = queue.Submit(Needs("r4"), 0);
  CHECK(GetErrorInfo(full).code == "QUEUE_FULL");
  CHECK(Starts(queue, {Agent("a1"), Agent("a2")}).empty());
  CHECK(WaitsFor(queue, "r2") == std::vector<std::string>{"1 runs are going on, the limit"});
  CHECK(queue.waiting()[1].since == 7);
}

TEST_CASE("a cancelled run leaves the queue and keeps nothing") {
  RunQueue queue;
  const std::vector<QueueAgent> there = {Agent("a1"), Agent("a2")};
  Submit(queue, Needs("r1", 1));
  CHECK(Starts(queue, there) == "r1:a1");
  Submit(queue, Needs("r2", 2));
  Submit(queue, Needs("r3", 1));
  CHECK(Starts(queue, there).empty());
  CHECK(queue.Cancel("r2"));
  CHECK_FALSE(queue.Cancel("r2"));
  CHECK_FALSE(queue.Cancel("r1"));  // it runs
  CHECK(Starts(queue, there) == "r3:a2");
}

// An agent that was lost is not an agent that stopped: a run on the same target would be measured beside its load.
TEST_CASE("the targets of a run that lost an agent are free when that agent must have stopped") {
  RunQueue queue;
  const std::vector<QueueAgent> there = {Agent("a1"), Agent("a2", {}, "h2")};
  Submit(queue, Needs("r1", 2, {}, {Lun("disk"), Dir("/x")}));
  CHECK(Starts(queue, there) == "r1:a1,a2");
  queue.Ended("r1", 17 * kSecond, 30 * kSecond);
  CHECK(queue.UserOf("a1").empty());
  CHECK(queue.running().empty());
  Submit(queue, Needs("r2", 1, {}, {Lun("disk")}));
  Submit(queue, Needs("r3", 1, {}, {Lun("other")}));
  // Nothing but the target holds r2 up: it keeps its agent, and r3 takes the other one.
  CHECK(Starts(queue, there, 17'400 * kMillisecond) == "r3:a2");
  CHECK(WaitsFor(queue, "r2") ==
        std::vector<std::string>{
            "target LUN 0 of disk, which an agent that run r1 lost may load for up to 13s after its end"});
  CHECK(Starts(queue, there, 30 * kSecond - 1).empty());
  CHECK(Starts(queue, there, 30 * kSecond) == "r2:a1");
}

TEST_CASE("reasons stay short whatever the fleet's size") {
  RunQueue queue;
  std::vector<QueueAgent> there;
  for (int i = 0; i < 30; ++i) there.push_back(Agent("a" + std::to_string(i)));
  Submit(queue, Needs("r1"));
  CHECK_FALSE(Starts(queue, there).empty());
  Submit(queue, Needs("r2"));
  CHECK(Starts(queue, there).empty());
  CHECK(WaitsFor(queue, "r2").size() == RunQueue::kReasons);
  CHECK(WaitsFor(queue, "r2").back() == "and 27 more");
}

TEST_CASE("whatever comes and goes: nothing is shared, and everybody who can have a turn has one") {
  const uint64_t seed = 20261130;
  Rng rng(seed);
  for (int round = 0; round < 200; ++round) {
    INFO("seed " << seed << " round " << round);
    RunQueue queue({.waiting = 100, .running = 5});
    std::vector<QueueAgent> there;
    for (int i = 0; i < 6; ++i) {
      there.push_back(Agent("a" + std::to_string(i), {{"n", std::to_string(i % 3)}}, "h" + std::to_string(i % 2)));
    }
    std::map<std::string, RunNeeds> needs;
    std::map<std::string, std::vector<std::string>> running;
    std::vector<std::string> order, begun;
    for (int i = 0; i < 20; ++i) {
      RunNeeds need = Needs("r" + std::to_string(i), static_cast<uint32_t>(rng.Below(3)));
      if (rng.Below(2) == 0) need.match = {{"n", std::to_string(rng.Below(3))}};
      if (rng.Below(2) == 0) need.targets.push_back(Lun("iqn." + std::to_string(rng.Below(2))));
      if (rng.Below(3) == 0) need.targets.push_back(Dir("/d" + std::to_string(rng.Below(2))));
      needs[need.run] = need;
      Submit(queue, need);
    }
    for (int step = 0; step < 400 && (begun.size() < 20 || !running.empty()); ++step) {
      for (const RunQueue::Start& start : queue.Dispatch(there, 0)) {
        running[start.run] = start.agents;
        begun.push_back(start.run);
        CHECK(!start.agents.empty());
      }
      std::map<std::string, int> agents, targets;
      for (const auto& [run, used] : running) {
        std::set<std::string> hosts;
        for (const std::string& agent : used) {
          ++agents[agent];
          const auto at = std::find_if(there.begin(), there.end(), [&](const auto& a) { return a.id == agent; });
          CHECK(Matches(at->labels, needs[run].match));
          hosts.insert(at->host);
        }
        for (const TargetClaim& claim : needs[run].targets) {
          if (claim.remote) ++targets[claim.what];
          for (const std::string& host : hosts) {
            if (!claim.remote) ++targets[claim.what + host];
          }
        }
      }
      for (const auto& [agent, users] : agents) CHECK(users == 1);
      for (const auto& [target, users] : targets) CHECK(users == 1);
      CHECK(running.size() <= 5);
      // With nothing running the first in the queue is never told to wait for somebody.
      CHECK((!running.empty() || queue.waiting().empty()));
      if (running.empty()) break;
      const auto ends = std::next(running.begin(), static_cast<std::ptrdiff_t>(rng.Below(running.size())));
      queue.Ended(ends->first);
      running.erase(ends);
    }
    CHECK(begun.size() == 20);
  }
}

}  // namespace
}  // namespace muster
