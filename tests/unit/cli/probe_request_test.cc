#include "controller/cli/probe_request.h"

#include <stdlib.h>

#include <catch2/catch.hpp>

#include "common/base/status.h"

namespace muster {
namespace {

constexpr const char* kUrl = "iscsi://192.0.2.10:3261/iqn.2026-11.example:disks/7";
constexpr const char* kSecret = "very-secret-words";

// The typed error of options that are refused, checked for what must not be in it.
std::string CodeOf(const ProbeVerbOptions& options) {
  const absl::Status status = ProbeRequestOf(options).status();
  INFO(FormatError(status));
  CHECK(FormatError(status).find(kSecret) == std::string::npos);
  CHECK((status.ok() || !GetErrorInfo(status).next.empty()));
  return status.ok() ? "" : GetErrorInfo(status).code;
}

TEST_CASE("a URL is a portal, a target and perhaps a LUN") {
  const auto request = ProbeRequestOf({.what = kUrl});
  REQUIRE(request.ok());
  const auto& target = std::get<IscsiTarget>(request->target.kind);
  CHECK(target.portals == std::vector<std::string>{"192.0.2.10:3261"});
  CHECK(target.iqn == "iqn.2026-11.example:disks");
  CHECK(target.luns == std::vector<uint32_t>{7});
  CHECK(target.initiator == "iqn.2026-11.net.muster:initiator-0");
  CHECK(target.sources.empty());
  CHECK_FALSE(target.header_digest);
  REQUIRE(request->objects.size() == 1);
  CHECK_FALSE(request->writes);
  const auto whole = ProbeRequestOf({.what = "iscsi://[2001:db8::1]:3261/eui.0025"});
  REQUIRE(whole.ok());
  CHECK(std::get<IscsiTarget>(whole->target.kind).portals.front() == "[2001:db8::1]:3261");
  CHECK(whole->objects.empty());
  for (const char* good :
       {"iscsi://nas/iqn.a:b", "iscsi://[::1]/iqn.a:b", "iscsi://nas:1/iqn.a:b/0", "iscsi://nas/iqn.a:b/16383"}) {
    INFO(good);
    CHECK(CodeOf({.what = good}).empty());
  }
}

TEST_CASE("options of a URL") {
  REQUIRE(setenv("MUSTER_TEST_SECRET", kSecret, 1) == 0);
  const auto request = ProbeRequestOf({.what = kUrl,
                                       .user = "me",
                                       .secret = "env:MUSTER_TEST_SECRET",
                                       .mutual_user = "it",
                                       .mutual_secret = "env:MUSTER_TEST_SECRET",
                                       .initiator = "iqn.2026-11.example:me",
                                       .source = "192.0.2.1",
                                       .header_digest = true});
  REQUIRE(request.ok());
  const auto& target = std::get<IscsiTarget>(request->target.kind);
  CHECK(target.user == "me");
  CHECK(target.secret.value == kSecret);
  CHECK(target.mutual_user == "it");
  CHECK(target.mutual_secret.value == kSecret);
  CHECK(target.initiator == "iqn.2026-11.example:me");
  CHECK(target.sources == std::vector<std::string>{"192.0.2.1"});
  CHECK(target.header_digest);
}

TEST_CASE("what is no URL of a target") {
  for (const char* bad :
       {"iscsi://", "iscsi://nas", "iscsi://nas/", "iscsi:///iqn.a:b", "iscsi://nas:0/iqn.a:b",
        "iscsi://nas:65536/iqn.a:b", "iscsi://nas:/iqn.a:b", "iscsi://nas:x/iqn.a:b", "iscsi://[::1/iqn.a:b",
        "iscsi://[::1]3260/iqn.a:b", "iscsi://2001:db8::1/iqn.a:b", "iscsi://nas/iqn.a:b/", "iscsi://nas/iqn.a:b/x",
        "iscsi://nas/iqn.a:b/-1", "iscsi://nas/iqn.a:b/16384", "iscsi://nas/iqn.a:b/1/2", "iscsi://nas/iqn a",
        "iscsi://nas/iqn.a:{initiator}"}) {
    INFO(bad);
    CHECK(CodeOf({.what = bad}) == "PROBE_SYNTAX");
  }
  CHECK(CodeOf({.what = "iscsi://nas/" + std::string(224, 'a')}) == "PROBE_SYNTAX");
  CHECK(CodeOf({.what = kUrl, .initiator = std::string(224, 'a')}) == "PROBE_SYNTAX");
}

TEST_CASE("a secret is never taken from the command line, and what stood there is not repeated") {
  const std::string words = kSecret;
  CHECK(CodeOf({.what = kUrl, .user = "me", .secret = words}) == "SECRET_ON_COMMAND_LINE");
  CHECK(CodeOf({.what = kUrl, .user = "me", .secret = "env:"}) == "SECRET_ON_COMMAND_LINE");
  CHECK(CodeOf({.what = kUrl, .user = "me", .secret = "file:"}) == "SECRET_ON_COMMAND_LINE");
  CHECK(CodeOf({.what = "iscsi://me%" + words + "@nas/iqn.a:b"}) == "SECRET_ON_COMMAND_LINE");
  REQUIRE(setenv("MUSTER_TEST_SECRET", kSecret, 1) == 0);
  CHECK(CodeOf({.what = kUrl,
                .user = "me",
                .secret = "env:MUSTER_TEST_SECRET",
                .mutual_user = "it",
                .mutual_secret = words}) == "SECRET_ON_COMMAND_LINE");
  REQUIRE(unsetenv("MUSTER_TEST_NONE") == 0);
  CHECK(CodeOf({.what = kUrl, .user = "me", .secret = "env:MUSTER_TEST_NONE"}) == "SECRET_MISSING");
  CHECK(CodeOf({.what = kUrl, .user = "me", .secret = "file:/nowhere/at/all"}) == "SECRET_MISSING");
}

TEST_CASE("halves of CHAP are contradictions") {
  REQUIRE(setenv("MUSTER_TEST_SECRET", kSecret, 1) == 0);
  const std::string secret = "env:MUSTER_TEST_SECRET";
  CHECK(CodeOf({.what = kUrl, .user = "me"}) == "CONTRADICTION");
  CHECK(CodeOf({.what = kUrl, .secret = secret}) == "CONTRADICTION");
  CHECK(CodeOf({.what = kUrl, .user = "me", .secret = secret, .mutual_user = "it"}) == "CONTRADICTION");
  CHECK(CodeOf({.what = kUrl, .user = "me", .secret = secret, .mutual_secret = secret}) == "CONTRADICTION");
  CHECK(CodeOf({.what = kUrl, .mutual_user = "it", .mutual_secret = secret}) == "CONTRADICTION");
}

TEST_CASE("a target of a campaign takes no options and must exist") {
  for (const char* bad : {"campaign.yaml", ":luns", "campaign.yaml:"}) {
    INFO(bad);
    CHECK(CodeOf({.what = bad}) == "PROBE_SYNTAX");
  }
  CHECK(CodeOf({.what = "/nowhere/campaign.yaml:luns"}) == "CAMPAIGN_UNREADABLE");
  CHECK(CodeOf({.what = "c.yaml:luns", .user = "me"}) == "CONTRADICTION");
  CHECK(CodeOf({.what = "c.yaml:luns", .secret = kSecret}) == "CONTRADICTION");
  CHECK(CodeOf({.what = "c.yaml:luns", .mutual_user = "it"}) == "CONTRADICTION");
  CHECK(CodeOf({.what = "c.yaml:luns", .mutual_secret = kSecret}) == "CONTRADICTION");
  CHECK(CodeOf({.what = "c.yaml:luns", .initiator = "iqn.a:b"}) == "CONTRADICTION");
  CHECK(CodeOf({.what = "c.yaml:luns", .source = "192.0.2.1"}) == "CONTRADICTION");
  CHECK(CodeOf({.what = "c.yaml:luns", .header_digest = true}) == "CONTRADICTION");
}

}  // namespace
}  // namespace muster
