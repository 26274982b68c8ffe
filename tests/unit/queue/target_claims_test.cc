#include "controller/queue/target_claims.h"

#include <catch2/catch.hpp>

namespace muster {
namespace {

Plan PlanOf(std::vector<Target> targets) {
  Plan plan;
  plan.targets = std::move(targets);
  return plan;
}

std::vector<std::string> What(const Plan& plan) {
  std::vector<std::string> out;
  for (const TargetClaim& claim : ClaimsOf(plan)) out.push_back(claim.what);
  return out;
}

TEST_CASE("null targets are nobody's") {
  CHECK(ClaimsOf(PlanOf({{.name = "cal", .kind = NullTarget{}}})).empty());
}

TEST_CASE("directories and devices are named by their normal path and belong to a host") {
  const Plan plan = PlanOf({{.name = "f", .kind = FileTarget{.dir = "/srv//bench/./x/"}},
                            {.name = "d", .kind = BlockTarget{.device = "/dev/../dev/sdb"}}});
  const auto claims = ClaimsOf(plan);
  REQUIRE(claims.size() == 2);
  CHECK(claims[0].what == "dir /srv/bench/x");
  CHECK(claims[1].what == "device /dev/sdb");
  CHECK_FALSE(claims[0].remote);
  CHECK_FALSE(claims[1].remote);
}

TEST_CASE("a LUN is the target's name and its number, whatever portal leads there") {
  IscsiTarget one{.portals = {"192.0.2.1:3260"}, .iqn = "iqn.2026-11.example:Disks", .luns = {0, 3}};
  IscsiTarget other = one;
  other.portals = {"192.0.2.2:3260"};
  other.iqn = "iqn.2026-11.example:disks";
  other.luns = {3};
  const Plan first = PlanOf({{.name = "a", .kind = one}});
  const Plan second = PlanOf({{.name = "b", .kind = other}});
  CHECK(What(first) ==
        std::vector<std::string>{"iscsi iqn.2026-11.example:disks 0", "iscsi iqn.2026-11.example:disks 3"});
  CHECK(What(second) == std::vector<std::string>{"iscsi iqn.2026-11.example:disks 3"});
  CHECK(ClaimsOf(first)[1].remote);
  CHECK(ClaimsOf(first)[1].shown == "LUN 3 of iqn.2026-11.example:Disks at 192.0.2.1:3260");
}

TEST_CASE("a target for each initiator is claimed for the largest number of them") {
  Plan plan = PlanOf({{.name = "t", .kind = IscsiTarget{.portals = {"h:1"}, .iqn = "iqn.x:{initiator}", .luns = {0}}}});
  Step step;
  step.target = "t";
  step.initiators_max = 3;
  plan.steps = {step};
  CHECK(What(plan) == std::vector<std::string>{"iscsi iqn.x:0 0", "iscsi iqn.x:1 0", "iscsi iqn.x:2 0"});
}

TEST_CASE("the same target twice is one claim") {
  CHECK(What(PlanOf({{.name = "a", .kind = FileTarget{.dir = "/x"}},
                     {.name = "b", .kind = FileTarget{.dir = "/x/"}}})) == std::vector<std::string>{"dir /x"});
}

}  // namespace
}  // namespace muster
