#include "agent/engine/backend_facts.h"

#include <catch2/catch.hpp>

namespace muster {
namespace {

using Facts = std::vector<std::pair<std::string, std::string>>;

TEST_CASE("what all backends say alike is one fact, what differs one fact with whose it is") {
  const std::vector<BackendFacts> backends{
      {"0.0", {{"kind", "iscsi"}, {"ISID", "a"}, {"burst", "262144"}}},
      {"3.0", {{"kind", "iscsi"}, {"ISID", "b"}, {"burst", "262144"}}},
      {"6.0", {{"kind", "iscsi"}, {"ISID", "c"}, {"burst", "8192"}, {"last failed reconnect", "refused"}}},
  };
  CHECK(FoldFacts(backends) == Facts{{"backend kind", "iscsi"},
                                     {"backend ISID", "0.0: a; 3.0: b; 6.0: c"},
                                     {"backend burst", "0.0, 3.0: 262144; 6.0: 8192"},
                                     {"backend last failed reconnect", "6.0: refused"}});
  CHECK(FoldFacts({{"worker 0", {{"ring flags", "x"}}}}) == Facts{{"backend ring flags", "x"}});
  CHECK(FoldFacts({}).empty());
}

TEST_CASE("hundreds of connections are as many facts as one, and what does not fit is counted") {
  std::vector<BackendFacts> backends;
  for (int i = 0; i < 300; ++i) {
    backends.push_back(
        {std::to_string(i) + ".0", {{"kind", "iscsi"}, {"initiator", std::string(60, 'n') + std::to_string(i)}}});
  }
  const Facts facts = FoldFacts(backends);
  REQUIRE(facts.size() == 2);
  CHECK(facts[1].second.size() <= 4'096);
  CHECK_THAT(facts[1].second, Catch::StartsWith("0.0: nnn") && Catch::Contains("values more"));
}

}  // namespace
}  // namespace muster
