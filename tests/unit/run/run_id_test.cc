#include "controller/run/run_id.h"

#include <catch2/catch.hpp>
#include <set>

namespace muster {

// Two runs of one id would be one to everybody who asks, and one file.
TEST_CASE("runs of one process and second have ids of their own") {
  std::set<std::string> ids;
  for (int i = 0; i < 20'000; ++i) ids.insert(MakeRunId("c", 1'764'547'200'000'000));
  CHECK(ids.size() == 20'000);
  CHECK(ids.begin()->starts_with("20251201-000000-c-"));
  CHECK(ids.begin()->size() == std::string("20251201-000000-c-abcd").size());
}

}  // namespace muster
