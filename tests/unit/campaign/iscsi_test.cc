// iSCSI targets in a campaign: options that contradict each other, lists, secrets.
#include <stdlib.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/unit/campaign/campaign_fixture.h"

namespace muster {
namespace {

std::string Campaign(const std::string& iscsi, const std::string& rest = "") {
  return "name: c\ntargets:\n  db:\n    iscsi: {portal: \"192.0.2.1\", iqn: \"iqn.2026-11.example:db\"" + iscsi +
         "}\n" + rest + "steps:\n  - {name: s, target: db, workload: {size: 1GiB}}\n";
}

const IscsiTarget& IscsiOf(const Plan& plan) {
  return std::get<IscsiTarget>(plan.targets.at(0).kind);
}

TEST_CASE("an iSCSI target is read with its defaults") {
  const auto loaded = LoadCampaignText("c.yaml", Campaign(""));
  REQUIRE(loaded.ok());
  const auto plan = Compile(*loaded);
  REQUIRE(plan.ok());
  const IscsiTarget& target = IscsiOf(*plan);
  CHECK(target.portals == std::vector<std::string>{"192.0.2.1"});
  CHECK(target.luns == std::vector<uint32_t>{0});
  CHECK(target.connections == 1);
  CHECK(target.initiator == "iqn.2026-11.net.muster:initiator-{initiator}");
  CHECK_FALSE(target.header_digest);
  CHECK_FALSE(target.iser);
  CHECK(target.user.empty());
}

TEST_CASE("lists of LUNs, connections, sources") {
  const auto loaded = LoadCampaignText(
      "c.yaml",
      Campaign(", lun: [0..2, 7], connections: per_stream, source: [127.0.0.2, 127.0.0.3], header_digest: crc32c"));
  REQUIRE(loaded.ok());
  const auto plan = Compile(*loaded);
  REQUIRE(plan.ok());
  CHECK(IscsiOf(*plan).luns == std::vector<uint32_t>{0, 1, 2, 7});
  CHECK(IscsiOf(*plan).connections == kPerStream);
  CHECK(IscsiOf(*plan).sources.size() == 2);
  CHECK(IscsiOf(*plan).header_digest);
  REQUIRE(plan->steps.size() == 1);
  CHECK(plan->steps[0].objects.size() == 4);
  CHECK(plan->steps[0].objects[0].size == 256 << 20);
}

TEST_CASE("what is wrong with an iSCSI target is named with its place") {
  struct Case {
    std::string yaml;
    const char* code;
    const char* place;
  };
  const std::vector<Case> cases{
      {Campaign(", lun: 7..3"), "UNIT_SYNTAX", "c.yaml:4:"},
      {"name: c\ntargets:\n  db:\n    iscsi:\n      portal:\n        - 192.0.2.1\n        - 192.0.2.2:0\n      iqn: "
       "\"iqn.x:db\"\n"
       "steps:\n  - {name: s, target: db, workload: {size: 1GiB}}\n",
       "INVALID_FIELD", "c.yaml:7:11"},
      {Campaign(", lun: [1, 0..1]"), "UNIT_SYNTAX", "c.yaml:4:"},
      {Campaign(", lun: 16384"), "UNIT_SYNTAX", "c.yaml:4:"},
      {Campaign(", lun: 0..256"), "UNIT_SYNTAX", "c.yaml:4:"},
      {Campaign(", connections: 0"), "UNIT_SYNTAX", "c.yaml:4:"},
      {Campaign(", connections: many"), "UNIT_SYNTAX", "c.yaml:4:"},
      {Campaign(", data_digest: crc32c"), "NOT_SUPPORTED", "c.yaml:4:"},
      {Campaign(", transport: iser, header_digest: crc32c"), "CONTRADICTION", "c.yaml:4:"},
      {Campaign(", transport: iser, source: 192.0.2.1"), "CONTRADICTION", "c.yaml:4:"},
      {Campaign(", driver: kernel"), "UNIT_SYNTAX", "c.yaml:4:"},
      {Campaign(", transport: fc"), "ENUM_UNKNOWN", "c.yaml:4:"},
      {Campaign(", initiator: \"iqn.x:same\""), "CONTRADICTION", "c.yaml:4:"},
      {Campaign(", lun: [0, 1], overwrite: {id: x, size: 1GB}"), "CONTRADICTION", "c.yaml:4:"},
      {Campaign("", "    chap: {user: u, secret: {env: A, value: hush}}\n"), "SECRET_IN_CAMPAIGN", "c.yaml:5:"},
      {Campaign("", "    chap: {user: u}\n"), "MISSING_KEY", "c.yaml:5:"},
      {Campaign("", "    chap: {user: u, secret: {env: A, file: /b}}\n"), "CONTRADICTION", "c.yaml:5:"},
      {Campaign("", "    chap: {user: u, secret: {env: A}, mutual_user: t}\n"), "CONTRADICTION", "c.yaml:5:"},
      {Campaign("", "  again: {iscsi: {portal: h, iqn: \"iqn.2026-11.example:db\"}}\n"), "CONTRADICTION", "c.yaml:5:"},
      {"name: c\ntargets: {t: {null: {}, chap: {user: u, secret: {env: A}}}}\nsteps: [{name: s, target: t, workload: "
       "{size: "
       "1GiB}}]\n",
       "CONTRADICTION", "c.yaml:2:"},
  };
  for (const Case& c : cases) {
    INFO(c.yaml);
    const ErrorInfo error = ErrorOf(c.yaml);
    CHECK(error.code == c.code);
    CHECK_THAT(error.place, Catch::StartsWith(c.place));
    CHECK(error.message.find("hush") == std::string::npos);
  }
}

TEST_CASE("secrets are found where the campaign says, or the error names that place") {
  const auto resolve = [](const std::string& source, std::string& value) {
    const auto loaded = LoadCampaignText("c.yaml", Campaign("", "    chap: {user: u, secret: {" + source + "}}\n"));
    REQUIRE(loaded.ok());
    auto plan = Compile(*loaded);
    REQUIRE(plan.ok());
    CHECK(IscsiOf(*plan).secret.value.empty());
    const absl::Status status = ResolveSecrets(*loaded, *plan);
    value = IscsiOf(*plan).secret.value;
    return status;
  };
  std::string value;
  setenv("MUSTER_TEST_CHAP", "from the environment", 1);
  CHECK(resolve("env: MUSTER_TEST_CHAP", value).ok());
  CHECK(value == "from the environment");
  unsetenv("MUSTER_TEST_CHAP");
  const ErrorInfo missing = GetErrorInfo(resolve("env: MUSTER_TEST_CHAP", value));
  CHECK(missing.code == "SECRET_MISSING");
  CHECK_THAT(missing.place, Catch::StartsWith("c.yaml:5:"));

  std::string path = "/tmp/muster-secret-XXXXXX";
  const int fd = mkstemp(path.data());
  REQUIRE(fd >= 0);
  close(fd);
  const auto file = [&](const std::string& text) {
    std::ofstream(path, std::ios::trunc) << text;
    return resolve("file: " + path, value);
  };
  CHECK(file("of a file\n").ok());
  CHECK(value == "of a file");
  CHECK(file(" two\nlines\n").ok());
  CHECK(value == " two\nlines");
  CHECK(GetErrorInfo(file("")).code == "SECRET_MISSING");
  CHECK(GetErrorInfo(file(std::string(1025, 'x'))).code == "SECRET_MISSING");
  unlink(path.c_str());
  CHECK(GetErrorInfo(resolve("file: " + path, value)).code == "SECRET_MISSING");
  CHECK(GetErrorInfo(resolve("file: /tmp", value)).code == "SECRET_MISSING");
}

}  // namespace
}  // namespace muster
