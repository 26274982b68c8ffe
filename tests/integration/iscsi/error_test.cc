// Each way a connection cannot be had has its own typed error, naming portal, target and LUN, and no secret.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>

#include "agent/backend/iscsi/probe.h"
#include "common/base/status.h"
#include "tests/integration/iscsi/connection.h"

namespace muster::test {
namespace {

constexpr const char* kSecret = "secretsecret12";
constexpr const char* kOtherSecret = "mutualmutual34";

std::string CodeOfOpen(const IscsiConnectionSpec& spec, std::vector<BackendObject> objects = {}) {
  Connection c(spec);
  return CodeOf(c.TryOpen(std::move(objects), 3 * kSecond), spec);
}

TEST_CASE("no connection: refused, silent, unknown name") {
  RequireTgtOrSkip();
  CHECK(CodeOfOpen(SpecFor(FreePort())) == "ISCSI_CONNECT");

  // Accepts, and says nothing.
  const int silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  REQUIRE(bind(silent, reinterpret_cast<sockaddr*>(&address), bytes) == 0);
  REQUIRE(listen(silent, 8) == 0);
  REQUIRE(getsockname(silent, reinterpret_cast<sockaddr*>(&address), &bytes) == 0);
  const IscsiConnectionSpec spec = SpecFor(ntohs(address.sin_port));
  Connection c(spec);
  const Nanos begin = SteadyClock::Get().Now();
  CHECK(CodeOf(c.TryOpen({}, 200 * kMillisecond), spec) == "ISCSI_CONNECT");
  CHECK(SteadyClock::Get().Now() - begin >= 200 * kMillisecond);
  CHECK(SteadyClock::Get().Now() - begin < 5 * kSecond);
  close(silent);

  IscsiConnectionSpec unknown = SpecFor(3260);
  unknown.host = "256.1.1.1";
  CHECK(CodeOfOpen(unknown) == "ISCSI_RESOLVE");
}

TEST_CASE("CHAP in one direction and in both") {
  RequireTgtOrSkip();
  Tgt tgt;
  const int target = tgt.AddTarget(kTarget);
  tgt.AddLun(target, 1, {});
  tgt.Account(target, "alice", kSecret);
  IscsiConnectionSpec spec = SpecFor(tgt.port());
  CHECK(CodeOfOpen(spec) == "ISCSI_LOGIN_AUTH");  // wanted, not given
  spec.user = "alice";
  spec.secret = "wrongwrong1234";
  CHECK(CodeOfOpen(spec) == "ISCSI_LOGIN_AUTH");
  spec.user = "bob";
  spec.secret = kSecret;
  CHECK(CodeOfOpen(spec) == "ISCSI_LOGIN_AUTH");
  spec.user = "alice";
  CHECK(CodeOfOpen(spec).empty());

  // Asked for by us, not given by the target; then given; then with another secret than expected.
  spec.mutual_user = "storage";
  spec.mutual_secret = kOtherSecret;
  CHECK(CodeOfOpen(spec) == "ISCSI_LOGIN_AUTH");
  tgt.Account(target, "storage", kOtherSecret, true);
  CHECK(CodeOfOpen(spec).empty());
  spec.mutual_secret = "anotheranother";
  CHECK(CodeOfOpen(spec) == "ISCSI_LOGIN_AUTH");

  spec.mutual_secret = kOtherSecret;
  Connection c(spec);
  c.Open();
  CHECK(c.Parameter("authentication") == "mutual CHAP");
  for (const auto& [name, value] : c.backend().Describe().parameters) {
    CHECK(value.find(kSecret) == std::string::npos);
    CHECK(value.find(kOtherSecret) == std::string::npos);
  }
}

TEST_CASE("an unknown target, and one that is not for this initiator") {
  RequireTgtOrSkip();
  Tgt tgt;
  const int target = tgt.AddTarget(kTarget, false);
  tgt.AddLun(target, 1, {});
  tgt.AllowInitiator(target, "iqn.2026-01.io.example.test:allowed");
  IscsiConnectionSpec spec = SpecFor(tgt.port());
  // tgtd tells an initiator that is not allowed that there is no such target.
  CHECK(CodeOfOpen(spec) == "ISCSI_NO_TARGET");
  spec.initiator = "iqn.2026-01.io.example.test:allowed";
  CHECK(CodeOfOpen(spec).empty());
  spec.target = "iqn.2026-01.io.example.test:none";
  CHECK(CodeOfOpen(spec) == "ISCSI_NO_TARGET");
}

TEST_CASE("LUNs that are absent, no disk, read-only, too small, of another block size") {
  RequireTgtOrSkip();
  Tgt tgt;
  const int target = tgt.AddTarget(kTarget);
  tgt.AddLun(target, 1, {.bytes = 4 << 20, .read_only = true});
  tgt.AddLun(target, 2, {.bytes = 4 << 20, .block = 4096});
  IscsiConnectionSpec spec = SpecFor(tgt.port());
  spec.luns = {7};
  CHECK(CodeOfOpen(spec) == "ISCSI_NO_LUN");
  spec.luns = {0};  // tgtd's controller device
  CHECK(CodeOfOpen(spec) == "ISCSI_NO_LUN");
  spec.luns = {1};
  CHECK(CodeOfOpen(spec).empty());
  spec.writes = true;
  CHECK(CodeOfOpen(spec) == "ISCSI_READ_ONLY");
  spec.luns = {2};
  CHECK(CodeOfOpen(spec, {{.size = 4 << 20, .logical_block = 4096}}).empty());
  CHECK(CodeOfOpen(spec, {{.size = 4 << 20, .logical_block = 512}}) == "ISCSI_BLOCK_SIZE");
  CHECK(CodeOfOpen(spec, {{.size = 8 << 20, .logical_block = 4096}}) == "ISCSI_LUN_SIZE");
  CHECK(CodeOfOpen(spec, {{.size = 4 << 20, .base = 4096, .logical_block = 4096}}) == "ISCSI_LUN_SIZE");
}

TEST_CASE("a write to a read-only LUN fails and is counted by name") {
  RequireTgtOrSkip();
  Tgt tgt;
  tgt.AddLun(tgt.AddTarget(kTarget), 1, {.read_only = true});
  Connection c(SpecFor(tgt.port()));
  c.Open();
  const IoCompletion done = c.RunOne(c.Op(IoKind::kWrite, 0, 4096));
  CHECK(done.outcome == IoOutcome::kOther);
  CHECK(done.native_code != 0);
  CHECK(c.Counter("DATA PROTECT 27/00 write protected") == 1);
  CHECK(c.RunOne(c.Op(IoKind::kRead, 0, 4096)).outcome == IoOutcome::kOk);
}

TEST_CASE("a header digest the target does not have") {
  RequireTgtOrSkip();
  Tgt tgt;
  const int target = tgt.AddTarget(kTarget);
  tgt.AddLun(target, 1, {});
  IscsiConnectionSpec spec = SpecFor(tgt.port());
  spec.header_digest = IscsiHeaderDigest::kCrc32c;
  CHECK(CodeOfOpen(spec) == "ISCSI_DIGEST");
  tgt.Set(target, "HeaderDigest", "CRC32C");
  CHECK(CodeOfOpen(spec).empty());
}

TEST_CASE("source address and port are had as asked, or not at all") {
  RequireTgtOrSkip();
  Tgt tgt;
  tgt.AddLun(tgt.AddTarget(kTarget), 1, {});
  IscsiConnectionSpec spec = SpecFor(tgt.port());
  spec.source_address = "127.0.0.9";
  {
    Connection c(spec);
    c.Open();
    CHECK(c.Parameter("source").substr(0, 10) == "127.0.0.9:");
  }
  spec.source_port = FreePort();
  {
    Connection c(spec);
    c.Open();
    CHECK(c.Parameter("source") == "127.0.0.9:" + std::to_string(spec.source_port));
    // The same four numbers a second time.
    IscsiConnectionSpec again = spec;
    again.isid_qualifier = 1;
    CHECK(CodeOfOpen(again) == "ISCSI_BIND");
    CHECK(c.RunOne(c.Op(IoKind::kRead, 0, 4096)).outcome == IoOutcome::kOk);
  }
  // And once more after it has ended.
  CHECK(CodeOfOpen(spec).empty());
  spec.source_port = 0;
  spec.source_address = "198.51.100.7";  // documentation, not of this host
  CHECK(CodeOfOpen(spec) == "ISCSI_BIND");
  spec.source_address = "nonsense";
  CHECK(CodeOfOpen(spec) == "ISCSI_BIND");
}

TEST_CASE("iSER without a device says so") {
  RequireTgtOrSkip();
  if (access("/sys/class/infiniband", F_OK) == 0) return;
  IscsiConnectionSpec spec = SpecFor(3260);
  spec.transport = IscsiTransport::kIser;
  CHECK(CodeOfOpen(spec) == "ISCSI_NO_RDMA");
}

TEST_CASE("redirects are followed, a circle is not") {
  RequireTgtOrSkip();
  Tgt first;
  Tgt second;
  second.AddLun(second.AddTarget(kTarget), 1, {});
  const int target = first.AddTarget(kTarget);
  first.AddLun(target, 1, {});
  const auto redirect = [&](uint16_t port) {
    first.Set(target, "RedirectAddress", "127.0.0.1");
    first.Set(target, "RedirectPort", std::to_string(port));
    first.Set(target, "RedirectReason", "Temporary");
  };
  redirect(second.port());
  IscsiConnectionSpec spec = SpecFor(first.port());
  spec.source_address = "127.0.0.9";  // tgtd redirects nobody to his own address
  {
    Connection c(spec);
    c.Open();
    CHECK(c.Parameter("portal") == "127.0.0.1:" + std::to_string(second.port()));
    CHECK(c.Counter("redirects") == 1);
    CHECK(c.RunOne(c.Op(IoKind::kWrite, 0, 4096)).outcome == IoOutcome::kOk);
  }
  redirect(first.port());
  CHECK(CodeOfOpen(spec) == "ISCSI_PROTOCOL");
}

TEST_CASE("a redirect to a name is followed, and its lookup does not hold the thread up") {
  RequireTgtOrSkip();
  Tgt tgt;
  tgt.AddLun(tgt.AddTarget(kTarget), 1, {});
  IscsiProxy proxy(tgt.port());
  const std::string name = "localhost:" + std::to_string(proxy.port());
  proxy.RedirectNext(name);
  IscsiConnectionSpec spec = SpecFor(proxy.port());
  spec.source_address = "127.0.0.9";  // of localhost's addresses, the one the proxy listens at
  spec.first_backoff = kMillisecond;
  {
    Connection c(spec);
    c.Open();
    CHECK(c.Parameter("portal") == "127.0.0.1:" + std::to_string(proxy.port()));
    CHECK(c.Counter("redirects") == 1);
  }
  LookUpGate gate;
  IscsiResolver resolver = gate.Resolver();
  spec.resolver = &resolver;
  proxy.RedirectNext(name);
  Connection c(spec);
  c.Open();
  CHECK(gate.calls() == 1);
  gate.Block();
  proxy.RedirectNext(name);
  proxy.Reset();
  const SteadyClock& clock = SteadyClock::Get();
  Nanos longest = 0;
  uint32_t turns = 0;
  c.DriveUntil([&] {
    const Nanos begin = clock.Now();
    std::array<IoCompletion, 1> out;
    c.backend().Reap(out, begin);
    longest = std::max(longest, clock.Now() - begin);
    return gate.calls() == 2 && ++turns == 20;
  });
  CHECK(c.backend().down_time() > 0);
  CHECK(longest < 2 * kSecond);
  gate.Release();
  CHECK(c.RunOne(c.Op(IoKind::kWrite, 0, 4096)).outcome == IoOutcome::kOk);
  CHECK(c.Counter("redirects") == 2);
}

TEST_CASE("a name nobody answers for is told at the login's deadline") {
  LookUpGate gate;
  IscsiResolver resolver = gate.Resolver();
  gate.Block();
  IscsiConnectionSpec spec = SpecFor(3260);
  spec.host = "nas1";
  spec.resolver = &resolver;
  spec.login_timeout = 100 * kMillisecond;
  CHECK(CodeOfOpen(spec) == "ISCSI_RESOLVE");
  CHECK(CodeOf(IscsiProbe::Login(spec, SteadyClock::Get().Now() + 50 * kMillisecond).status(), spec) ==
        "ISCSI_RESOLVE");
}

TEST_CASE("a redirect to a name nobody answers for ends with the login") {
  RequireTgtOrSkip();
  Tgt tgt;
  tgt.AddLun(tgt.AddTarget(kTarget), 1, {});
  IscsiProxy proxy(tgt.port());
  proxy.RedirectNext("nas2");
  LookUpGate gate;
  IscsiResolver resolver = gate.Resolver();
  gate.Block();
  IscsiConnectionSpec spec = SpecFor(proxy.port());
  spec.resolver = &resolver;
  spec.login_timeout = kSecond;
  Connection c(spec);
  const absl::Status status = c.TryOpen();
  CHECK(CodeOf(status, spec) == "ISCSI_RESOLVE");
  CHECK(FormatError(status).find("nas2") != std::string::npos);
}

}  // namespace
}  // namespace muster::test
