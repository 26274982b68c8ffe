// What a probe finds out, and that it only reads.
#include "agent/backend/iscsi/probe.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>

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

  const auto ends = (*probe)->ReadEnds(*first, 1'000'000, Soon());
  REQUIRE(ends.ok());
  const size_t bytes = (1'000'000 + 511) / 512 * 512;
  REQUIRE(ends->head.size() == bytes);
  REQUIRE(ends->tail.size() == bytes);
  CHECK(std::equal(ends->head.begin(), ends->head.end(), content.begin()));
  CHECK(std::equal(ends->tail.begin(), ends->tail.end(), content.end() - static_cast<ptrdiff_t>(bytes)));
  const auto all = (*probe)->ReadEnds(*second, 1 << 30, Soon());
  REQUIRE(all.ok());
  CHECK(all->head.size() == 2 << 20);
  probe->reset();
  CHECK(ReadFile(one, 0, content.size()) == content);
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
