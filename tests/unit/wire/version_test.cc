#include "common/wire/version.h"

#include <catch2/catch.hpp>

#include "common/base/status.h"

namespace muster {
namespace {

TEST_CASE("the highest common version is chosen") {
  CHECK(ChooseApi({1, 3}, {2, 5}) == 3u);
  CHECK(ChooseApi({2, 5}, {1, 3}) == 3u);
  CHECK(ChooseApi({4, 4}, {4, 4}) == 4u);
  CHECK_FALSE(Overlap({1, 1}, {2, 3}));
  CHECK_FALSE(Overlap({2, 3}, {1, 1}));
  CHECK_FALSE(Overlap({3, 2}, {1, 9}));
  CHECK(Overlap(ApiRange{}, ApiRange{}));
}

TEST_CASE("a refusal names both ranges and both builds") {
  const ErrorInfo info = GetErrorInfo(VersionRefusal("a1", {7, 8}, "9.9+abc", {1, 2}, "0.1+def"));
  CHECK(info.code == "API_VERSION");
  CHECK(info.place == "agent a1");
  for (const char* part : {"9.9+abc", "7..8", "0.1+def", "1..2"}) {
    CHECK(info.message.find(part) != std::string::npos);
  }
  CHECK(BuildString().find('.') != std::string_view::npos);
}

}  // namespace
}  // namespace muster
