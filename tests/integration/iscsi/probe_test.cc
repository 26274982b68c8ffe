// What a probe finds out, and that it only reads.
#include "agent/backend/iscsi/probe.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <thread>

#include "common/base/status.h"
#include "tests/integration/iscsi/connection.h"

namespace muster::test {
namespace {

Nanos Soon() {
  return SteadyClock::Get().Now() + 10 * kSecond;
}

TEST_CASE("a probe lists and inspects LUNs and reads their ends") {
  RequireTgtOrSkip();
  Tgt tgt;
  const int target = tgt.AddTarget(kTarget);
  const std::string one = tgt.AddLun(target, 1, {.bytes = 8 << 20});
  tgt.AddLun(target, 2, {.bytes = 4 << 20, .block = 4096, .thin = false, .read_only = true});
  tgt.AddLun(target, 9, {.null = true});
  tgt.Account(target, "alice", "secretsecret12");
  std::vector<uint8_t> content(8 << 20);
  FillRandom(content.data(), content.size(), 11);
  {
    std::ofstream file(one, std::ios::binary);
    file.write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
  }
  IscsiConnectionSpec spec = SpecFor(tgt.port());
  CHECK(CodeOf(IscsiProbe::Login(spec, Soon()).status(), spec) == "ISCSI_LOGIN_AUTH");
  spec.user = "alice";
  spec.secret = "secretsecret12";
  auto probe = IscsiProbe::Login(spec, Soon());
  REQUIRE(probe.ok());
  const auto luns = (*probe)->ReportLuns(Soon());
  REQUIRE(luns.ok());
  CHECK(*luns == std::vector<uint16_t>{0, 1, 2, 9});

  const auto first = (*probe)->Inspect(1, Soon());
  REQUIRE(first.ok());
  CHECK(first->bytes() == 8 << 20);
  CHECK(first->capacity.block_bytes == 512);
  CHECK(first->is_disk());
  CHECK(first->inquiry.vendor == "IET");
  CHECK_FALSE(first->serial.empty());
  CHECK_FALSE(first->device_ids.empty());
  CHECK(first->provisioning.unmap);
  CHECK(first->has_mode);
  CHECK(first->mode.write_cache);
  CHECK_FALSE(first->mode.write_protected);
  const auto second = (*probe)->Inspect(2, Soon());
  REQUIRE(second.ok());
  CHECK(second->capacity.block_bytes == 4096);
  CHECK(second->mode.write_protected);
  CHECK_FALSE(second->provisioning.unmap);
  CHECK(CodeOf((*probe)->Inspect(0, Soon()).status(), spec) == "ISCSI_NO_LUN");
  CHECK(CodeOf((*probe)->Inspect(3, Soon()).status(), spec) == "ISCSI_NO_LUN");

  const uint64_t bytes = (1'000'000 + 511) / 512 * 512;
  const IscsiInspector::Range ends[] = {{0, bytes}, {content.size() - bytes, bytes}, {4 << 20, 0}};
  uint64_t read = 0;
  const auto compare = [&](uint64_t offset, std::span<const uint8_t> piece) {
    read += piece.size();
    CHECK(std::equal(piece.begin(), piece.end(), content.begin() + static_cast<ptrdiff_t>(offset)));
    return absl::OkStatus();
  };
  CHECK((*probe)->Read(*first, ends, compare, Soon()).ok());
  CHECK(read == 2 * bytes);
  const IscsiInspector::Range beyond[] = {{4 << 20, 4096}};
  const auto ignore = [](uint64_t, std::span<const uint8_t>) { return absl::OkStatus(); };
  CHECK(CodeOf((*probe)->Read(*second, beyond, ignore, Soon()), spec) == "ISCSI_PROTOCOL");
  probe->reset();
  CHECK(ReadFile(one, 0, content.size()) == content);
}

TEST_CASE("several reads of a probe are under way at once") {
  RequireTgtOrSkip();
  Tgt tgt;
  tgt.AddLun(tgt.AddTarget(kTarget), 1, {});
  IscsiProxy proxy(tgt.port());
  const IscsiConnectionSpec spec = SpecFor(proxy.port());
  auto probe = IscsiProbe::Login(spec, Soon());
  REQUIRE(probe.ok());
  const auto facts = (*probe)->Inspect(1, Soon());
  REQUIRE(facts.ok());
  proxy.HoldReads(true);
  const IscsiInspector::Range range[] = {{0, 8 << 20}};
  uint64_t read = 0;
  std::thread releaser([&] {
    const Nanos deadline = SteadyClock::Get().Now() + kMinute;
    while (proxy.transfers() < IscsiInspector::kReadsAtOnce && SteadyClock::Get().Now() < deadline)
      std::this_thread::yield();
    proxy.HoldReads(false);
  });
  CHECK((*probe)
            ->Read(
                *facts, range,
                [&](uint64_t, std::span<const uint8_t> piece) {
                  CHECK(proxy.transfers() >= IscsiInspector::kReadsAtOnce);
                  read += piece.size();
                  return absl::OkStatus();
                },
                SteadyClock::Get().Now() + kMinute)
            .ok());
  releaser.join();
  CHECK(read == 8 << 20);
}

TEST_CASE("a probe of a silent target ends at its deadline") {
  RequireTgtOrSkip();
  Tgt tgt;
  tgt.AddLun(tgt.AddTarget(kTarget), 1, {});
  const IscsiConnectionSpec spec = SpecFor(tgt.port());
  auto probe = IscsiProbe::Login(spec, Soon());
  REQUIRE(probe.ok());
  tgt.Stop();
  const Nanos begin = SteadyClock::Get().Now();
  CHECK(CodeOf((*probe)->Inspect(1, begin + 200 * kMillisecond).status(), spec) == "ISCSI_CONNECT");
  CHECK(SteadyClock::Get().Now() - begin < 10 * kSecond);
  tgt.Continue();
}

}  // namespace
}  // namespace muster::test
