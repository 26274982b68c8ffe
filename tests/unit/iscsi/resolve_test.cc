#include "agent/backend/iscsi/resolve.h"

#include <netinet/in.h>
#include <poll.h>

#include <catch2/catch.hpp>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "tests/support/look_up_gate.h"

namespace muster::test {
namespace {

IscsiConnectionSpec Spec(const std::string& host, IscsiResolver* resolver = nullptr) {
  IscsiConnectionSpec spec;
  spec.host = host;
  spec.target = "iqn.2026-01.io.example.test:disks";
  spec.resolver = resolver;
  return spec;
}
Nanos In(Nanos patience) {
  return SteadyClock::Get().Now() + patience;
}
bool Ends(const IscsiLookup& lookup) {
  pollfd p{.fd = lookup.fd(), .events = POLLIN, .revents = 0};
  return poll(&p, 1, 60'000) == 1 && lookup.done();
}

TEST_CASE("a portal is resolved, an address without a lookup") {
  LookUpGate gate;
  IscsiResolver resolver = gate.Resolver();
  CHECK(ResolvePortal(Spec("10.0.0.5", &resolver), In(kMinute)).value() == "10.0.0.5:3260");
  CHECK(ResolvePortal(Spec("::1", &resolver), In(kMinute)).value() == "[::1]:3260");
  CHECK(gate.calls() == 0);
  CHECK(ResolvePortal(Spec("nas1", &resolver), In(kMinute)).value() == "127.0.0.1:3260");
  const absl::Status unknown = ResolvePortal(Spec("no-nas", &resolver), In(kMinute)).status();
  CHECK(GetErrorInfo(unknown).code == "ISCSI_RESOLVE");
  CHECK(GetErrorInfo(unknown).message.find("no-nas: unknown") != std::string::npos);
}

TEST_CASE("the system's resolver knows localhost, in the family of the source address") {
  IscsiConnectionSpec spec = Spec("localhost");
  spec.source_address = "127.0.0.1";
  CHECK(ResolvePortal(spec, In(kMinute)).value() == "127.0.0.1:3260");
}

TEST_CASE("a lookup that hangs costs its deadline, and the error says so") {
  LookUpGate gate;
  IscsiResolver resolver = gate.Resolver();
  gate.Block();
  const Nanos begin = SteadyClock::Get().Now();
  const absl::Status status = ResolvePortal(Spec("nas1", &resolver), begin + 200 * kMillisecond).status();
  const Nanos took = SteadyClock::Get().Now() - begin;
  CHECK(took >= 200 * kMillisecond);
  CHECK(took < 5 * kSecond);
  const ErrorInfo info = GetErrorInfo(status);
  CHECK(info.code == "ISCSI_RESOLVE");
  CHECK(info.message.find("nas1") != std::string::npos);
  CHECK(info.message.find("within 0.2 s") != std::string::npos);
  CHECK_FALSE(info.next.empty());
  // Who asks again joins the one that hangs.
  const auto again = resolver.Begin("nas1", AF_UNSPEC);
  CHECK(gate.calls() == 1);
  gate.Release();
  REQUIRE(Ends(*again));
  CHECK(again->address() == "127.0.0.1");
}

TEST_CASE("lookups that hang are bounded, and what waits is served when they end") {
  LookUpGate gate;
  IscsiResolver resolver = gate.Resolver();
  gate.Block();
  std::vector<std::shared_ptr<const IscsiLookup>> all;
  for (size_t i = 0; i < IscsiResolver::kThreads; ++i) all.push_back(resolver.Begin("n" + std::to_string(i), AF_INET));
  REQUIRE(gate.AwaitCalls(IscsiResolver::kThreads));
  for (size_t i = 0; i < IscsiResolver::kWaiting; ++i) {
    all.push_back(resolver.Begin("w" + std::to_string(i), AF_INET));
    REQUIRE_FALSE(all.back()->done());
  }
  const auto beyond = resolver.Begin("beyond", AF_INET);
  CHECK(beyond->done());
  CHECK(beyond->address().empty());
  CHECK(beyond->why().find("8 lookups hang") != std::string::npos);
  CHECK(gate.calls() == IscsiResolver::kThreads);
  gate.Release();
  for (const auto& lookup : all) {
    REQUIRE(Ends(*lookup));
    CHECK(lookup->address() == "127.0.0.1");
  }
  CHECK(gate.calls() == IscsiResolver::kThreads + IscsiResolver::kWaiting);
}

}  // namespace
}  // namespace muster::test
