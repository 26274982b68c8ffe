// What a campaign may say of an iSCSI target.
#include <catch2/catch.hpp>

#include "fmt/format.h"
#include "tests/unit/campaign/campaign_fixture.h"

namespace muster {
namespace {

std::string Yaml(const std::string& iscsi, const std::string& chap = "") {
  return fmt::format(
      "name: t\ntargets: {{d: {{iscsi: {{iqn: 'iqn.2026-11.test:d', {}}}{}}}}}\n"
      "steps: [{{name: one, target: d, workload: {{size: 1MiB}}}}]\n",
      iscsi, chap);
}

TEST_CASE("portals of a campaign are checked where it is read") {
  for (const char* good :
       {"10.0.0.5", "10.0.0.5:3260", "nas1", "nas1:65535", "'[2001:db8::1]:3260'", "'[::1]'", "'2001:db8::1'"}) {
    INFO(good);
    CHECK(ErrorOf(Yaml(fmt::format("portal: {}", good))).code == "OK");
  }
  for (const char* bad : {"''", "':3260'", "'a:0'", "'a:65536'", "'a:'", "'a:b'", "'a b'", "'[::1'", "'[]:1'",
                          "'[::1]x'", "'[::1]3260'"}) {
    INFO(bad);
    const ErrorInfo error = ErrorOf(Yaml(fmt::format("portal: ['10.0.0.5', {}]", bad)));
    CHECK(error.code == "INVALID_FIELD");
    CHECK(error.place == "c.yaml:2:71");
  }
}

TEST_CASE("a target that is there but wrong is not called unknown as well") {
  const ErrorInfo error = ErrorOf(Yaml("portal: a, lun: [1, 1]"));
  CHECK(error.message == "LUN 1 is named twice");
  CHECK(error.next.find("UNKNOWN_TARGET") == std::string::npos);
}

TEST_CASE("an option of a target that does not fit is named where its value stands") {
  CHECK(ErrorOf(Yaml("portal: a, lun: [1, 1]")).place == "c.yaml:2:70");
  CHECK(ErrorOf(Yaml("portal: a, lun: [2, 5..3]")).place == "c.yaml:2:70");
  CHECK(ErrorOf(Yaml("portal: a, lun: 99999")).place == "c.yaml:2:66");
  CHECK(ErrorOf(Yaml("portal: a, connections: many")).place == "c.yaml:2:74");
  CHECK(ErrorOf(Yaml("portal: a, driver: kernel")).place == "c.yaml:2:69");
}

TEST_CASE("a secret in a campaign is refused and never repeated") {
  for (const char* secret : {"open-sesame", "[open-sesame]", "{value: open-sesame}"}) {
    INFO(secret);
    const ErrorInfo error = ErrorOf(Yaml("portal: a", fmt::format(", chap: {{user: u, secret: {}}}", secret)));
    const std::string said = error.code + error.message + error.next;
    CHECK(said.find("SECRET_IN_CAMPAIGN") != std::string::npos);
    CHECK(said.find("open-sesame") == std::string::npos);
  }
}

}  // namespace
}  // namespace muster
