#include "common/plan/labels.h"

#include <catch2/catch.hpp>

#include "common/base/status.h"

namespace muster {
namespace {

TEST_CASE("a label is NAME=VALUE, both of them names") {
  const auto label = ParseLabel("rack=b.2");
  REQUIRE(label.ok());
  CHECK(label->first == "rack");
  CHECK(label->second == "b.2");
  for (const char* bad : {"", "rack", "=b", "rack=", "ra ck=b", "rack=b c", "rack=b=c", "-a=b", "rack=\xc3\xa4"}) {
    INFO(bad);
    CHECK(GetErrorInfo(ParseLabel(bad).status()).code == "LABEL_SYNTAX");
  }
  CHECK(ParseLabel(std::string(64, 'a') + "=b").ok());
  CHECK_FALSE(ParseLabel(std::string(65, 'a') + "=b").ok());
}

TEST_CASE("an agent matches when it has all labels that are asked for") {
  const Labels labels = {{"rack", "b"}, {"net", "fast"}};
  CHECK(Matches(labels, {}));
  CHECK(Matches(labels, {{"rack", "b"}}));
  CHECK(Matches(labels, labels));
  CHECK_FALSE(Matches(labels, {{"rack", "a"}}));
  CHECK_FALSE(Matches(labels, {{"rack", "b"}, {"site", "x"}}));
  CHECK_FALSE(Matches({}, {{"rack", "b"}}));
  CHECK(FormatLabels(labels) == "net=fast, rack=b");
}

}  // namespace
}  // namespace muster
