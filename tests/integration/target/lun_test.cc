// Attaching LUNs of a real tgtd: guard and followers, as agents of one run do it.
#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "agent/guard/device_ends.h"
#include "agent/guard/label.h"
#include "agent/target/target.h"
#include "common/base/status.h"
#include "tests/support/iscsi_proxy.h"
#include "tests/support/tgt.h"

namespace muster::test {
namespace {

constexpr char kIqn[] = "iqn.2026-11.net.muster.test:attach";

struct Rig {
  Rig() {
    target = tgt.AddTarget(kIqn);
    file = tgt.AddLun(target, 1, Tgt::Lun{});
    IscsiTarget kind;
    kind.portals = {"127.0.0.1:" + std::to_string(tgt.port())};
    kind.iqn = kIqn;
    kind.luns = {1};
    kind.initiator = "iqn.2026-11.net.muster.test:initiator-{initiator}";
    request.run = "r";
    request.target = {.name = "lun", .kind = kind};
    request.objects = {{.slot = 0, .name = "", .size = 8 << 20}};
    request.writes = true;
  }
  absl::StatusOr<std::unique_ptr<AttachedTarget>> As(bool guard, uint64_t generation = 0) {
    request.guard = guard;
    request.generation = generation;
    return Attach(request, {});
  }

  Tgt tgt;
  int target = 0;
  std::string file;
  AttachRequest request;
};

std::string CodeOf(const absl::StatusOr<std::unique_ptr<AttachedTarget>>& attached) {
  return attached.ok() ? "OK" : GetErrorInfo(attached.status()).code;
}

TEST_CASE("a LUN is labelled once, and the other agents know the label") {
  Rig rig;
  auto guard = rig.As(true);
  REQUIRE(guard.ok());
  CHECK((*guard)->objects().at(0).base == kReservedBytes);
  CHECK((*guard)->objects().at(0).size == (32 << 20) - 2 * kReservedBytes);
  CHECK(rig.As(false, (*guard)->generation()).ok());
  CHECK(CodeOf(rig.As(false, (*guard)->generation() + 1)) == "LABEL_CHANGED");
  CHECK(CodeOf(rig.As(true)) == "TARGET_HELD");
  const uint64_t first = (*guard)->generation();
  REQUIRE((*guard)->Detach().ok());
  auto next = rig.As(true);  // the label lets it in, one generation on
  REQUIRE(next.ok());
  CHECK((*next)->generation() != first);
}

TEST_CASE("another label of the same generation is not taken for this run's") {
  Rig rig;
  auto guard = rig.As(true);
  REQUIRE(guard.ok());
  // What a run elsewhere, that found the LUN blank as well, would leave.
  const Label other{
      .uuid = NewUuid(), .generation = 1, .device_size = 32 << 20, .created_micros = 1, .created_by = "elsewhere"};
  const auto bytes = EncodeLabel(other);
  const int fd = open(rig.file.c_str(), O_WRONLY | O_CLOEXEC);
  REQUIRE(fd >= 0);
  REQUIRE(pwrite(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  close(fd);
  CHECK(CodeOf(rig.As(false, (*guard)->generation())) == "LABEL_CHANGED");
}

TEST_CASE("many LUNs behind a slow link are attached in time, and labelled once each") {
  constexpr int kLuns = 16;
  Rig rig;
  IscsiProxy proxy(rig.tgt.port());
  auto& kind = std::get<IscsiTarget>(rig.request.target.kind);
  kind.portals = {"127.0.0.1:" + std::to_string(proxy.port())};
  kind.initiator = "iqn.2026-11.net.muster.test:one";  // all sessions are of one initiator
  for (int lun = 2; lun <= kLuns; ++lun) {
    rig.tgt.AddLun(rig.target, lun, Tgt::Lun{});
    kind.luns.push_back(static_cast<uint32_t>(lun));
    rig.request.objects.push_back({.slot = static_cast<uint32_t>(lun - 1), .name = "", .size = 8 << 20});
  }
  // One after another, each of the 64 reads waiting for the one before, takes over two minutes at this distance.
  proxy.Delay(40 * kMillisecond);
  const auto guard = rig.As(true);
  INFO((guard.ok() ? "" : FormatError(guard.status())));
  REQUIRE(guard.ok());
  CHECK((*guard)->objects().size() == kLuns);
  CHECK(CodeOf(rig.As(true)) == "TARGET_HELD");
  const uint64_t before = proxy.transfers();
  CHECK(rig.As(false, (*guard)->generation()).ok());
  CHECK(proxy.transfers() - before == kLuns);  // the label alone
}

TEST_CASE("the guard of a labelled LUN reads the reserved ends, of another LUN all that is examined") {
  Rig rig;
  IscsiProxy proxy(rig.tgt.port());
  std::get<IscsiTarget>(rig.request.target.kind).portals = {"127.0.0.1:" + std::to_string(proxy.port())};
  constexpr uint64_t kRead = 256 << 10;  // of one command
  constexpr uint64_t kWrites = 1;        // the label
  auto guard = rig.As(true);
  REQUIRE(guard.ok());
  CHECK(proxy.transfers() == 2 * (2 * kExaminedBytes / kRead) + kWrites);  // before all writes, and before the first
  REQUIRE((*guard)->Detach().ok());
  const uint64_t before = proxy.transfers();
  REQUIRE(rig.As(true).ok());
  CHECK(proxy.transfers() - before == 2 * (2 * kReservedBytes / kRead) + kWrites);
}

TEST_CASE("objects beyond the LUNs of a target are refused, whatever a message says") {
  Rig rig;
  rig.request.objects.push_back({.slot = 1, .name = "", .size = 8 << 20});
  CHECK(CodeOf(rig.As(true)) == "INVALID_FIELD");
  CHECK(Inspect(rig.request.target, rig.request.objects, true, {}).refusal.code() != absl::StatusCode::kOk);
}

}  // namespace
}  // namespace muster::test
