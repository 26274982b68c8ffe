#include "agent/backend/iscsi/spec_of.h"

#include <catch2/catch.hpp>
#include <set>

#include "common/base/status.h"

namespace muster {
namespace {

IscsiTarget Target() {
  IscsiTarget target;
  target.portals = {"192.0.2.1:3261"};
  target.iqn = "iqn.x:disks";
  target.luns = {4, 5};
  target.initiator = "iqn.y:{initiator}";
  return target;
}

TEST_CASE("a connection is that of its initiator to its LUN") {
  const auto spec = SpecOf(Target(), 7, 1, 3);
  REQUIRE(spec.ok());
  CHECK(spec->host == "192.0.2.1");
  CHECK(spec->port == 3261);
  CHECK(spec->target == "iqn.x:disks");
  CHECK(spec->initiator == "iqn.y:7");
  CHECK(spec->luns == std::vector<uint16_t>{5});
  CHECK(spec->isid_qualifier == 3);
  IscsiTarget each = Target();
  each.iqn = "iqn.x:disk{initiator}";
  CHECK(SpecOf(each, 3, 3, 0)->target == "iqn.x:disk3");
  CHECK(SpecOf(each, 3, 3, 0)->luns == std::vector<uint16_t>{5});
  for (int i = 0; i < 100; ++i) CHECK(ExtraQualifier() >= kFirstExtraQualifier);
}

TEST_CASE("portals") {
  const auto parsed = [](const std::string& text) {
    IscsiTarget target = Target();
    target.portals = {text};
    const auto spec = SpecOf(target, 0, 0, 0);
    return spec.ok() ? spec->host + " " + std::to_string(spec->port) : GetErrorInfo(spec.status()).code;
  };
  CHECK(parsed("nas") == "nas 3260");
  CHECK(parsed("nas:1") == "nas 1");
  CHECK(parsed("[2001:db8::1]:860") == "2001:db8::1 860");
  CHECK(parsed("[2001:db8::1]") == "2001:db8::1 3260");
  CHECK(parsed("2001:db8::1") == "2001:db8::1 3260");
  for (const char* bad : {"", ":3260", "nas:", "nas:0", "nas:65536", "nas:x", "[::1", "[::1]3260", "a b", "a/b"}) {
    INFO(bad);
    CHECK(parsed(bad) == "INVALID_FIELD");
  }
}

TEST_CASE("an object that the target does not have is an error, not somebody else's LUN") {
  CHECK(SpecOf(Target(), 1, 1, 0).ok());
  CHECK(GetErrorInfo(SpecOf(Target(), 2, 2, 0).status()).code == "INVALID_FIELD");
  IscsiTarget none = Target();
  none.luns.clear();
  CHECK(GetErrorInfo(SpecOf(none, 0, 0, 0).status()).code == "INVALID_FIELD");
  none = Target();
  none.portals.clear();
  CHECK(GetErrorInfo(SpecOf(none, 0, 0, 0).status()).code == "INVALID_FIELD");
}

TEST_CASE("initiators meet every pair of source and portal, each as often as the others") {
  for (const size_t portals : {1u, 2u, 3u, 4u}) {
    for (const size_t sources : {1u, 2u, 3u, 6u}) {
      IscsiTarget target = Target();
      target.portals.clear();
      for (size_t p = 0; p < portals; ++p) target.portals.push_back("p" + std::to_string(p));
      for (size_t s = 0; s < sources; ++s) target.sources.push_back("127.0.0." + std::to_string(s));
      std::set<std::pair<std::string, std::string>> pairs;
      for (uint32_t i = 0; i < portals * sources; ++i) {
        const auto spec = SpecOf(target, i, 0, 0);
        pairs.emplace(spec->source_address, spec->host);
      }
      INFO(portals << " portals, " << sources << " sources");
      CHECK(pairs.size() == portals * sources);
    }
  }
}

TEST_CASE("sessions beside the load that are there at once are told apart, by the two") {
  for (const int first : {int{kFirstExtraQualifier}, 40'000, UINT16_MAX - 1}) {
    std::set<uint16_t> all;
    for (size_t n = 0; n < 256; ++n) {
      const uint16_t qualifier = ExtraQualifier(static_cast<uint16_t>(first), n);
      CHECK(qualifier >= kFirstExtraQualifier);
      CHECK(all.insert(qualifier).second);
      CHECK(all.insert(static_cast<uint16_t>(qualifier + 1)).second);
      CHECK(qualifier != UINT16_MAX);
    }
  }
}

}  // namespace
}  // namespace muster
