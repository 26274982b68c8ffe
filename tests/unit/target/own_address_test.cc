#include "agent/target/own_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <catch2/catch.hpp>

namespace muster {
namespace {

TEST_CASE("loopback in every form is this host") {
  for (const char* portal : {"127.0.0.1:3260", "127.0.0.9:3260", "127.255.0.1:1", "[::1]:3260",
                             "[::ffff:127.0.0.1]:3260", "::1", "127.0.0.1"}) {
    INFO(portal);
    CHECK(IsOwnAddress(portal));
  }
}

TEST_CASE("addresses kept for documentation and what is no address are not") {
  for (const char* portal : {"192.0.2.10:3260", "[2001:db8::1]:3260", "[::ffff:192.0.2.10]:3260", "128.0.0.1:3260",
                             "localhost:3260", "", "[", "[]", ":3260", "0.0.0.0:3260"}) {
    INFO(portal);
    CHECK_FALSE(IsOwnAddress(portal));
  }
}

TEST_CASE("addresses of this host's interfaces are") {
  ifaddrs* list = nullptr;
  REQUIRE(getifaddrs(&list) == 0);
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr) continue;
    char text[INET6_ADDRSTRLEN] = "";
    std::string portal;
    if (at->ifa_addr->sa_family == AF_INET) {
      inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(at->ifa_addr)->sin_addr, text, sizeof text);
      portal = std::string(text) + ":3260";
    } else if (at->ifa_addr->sa_family == AF_INET6) {
      inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(at->ifa_addr)->sin6_addr, text, sizeof text);
      portal = "[" + std::string(text) + "%" + at->ifa_name + "]:3260";
    } else {
      continue;
    }
    INFO(portal);
    CHECK(IsOwnAddress(portal));
  }
  freeifaddrs(list);
}

}  // namespace
}  // namespace muster
