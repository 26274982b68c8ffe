#include "agent/target/each_lun.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "agent/backend/iscsi/errors.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace muster {
namespace {

std::vector<IscsiConnectionSpec> Specs(size_t count) {
  std::vector<IscsiConnectionSpec> specs(count);
  for (size_t i = 0; i < count; ++i) {
    specs[i].host = "10.0.0.5";
    specs[i].target = "iqn.2026-01.io.example.test:disks";
    specs[i].luns = {static_cast<uint16_t>(i + 1)};
  }
  return specs;
}
Nanos Later() {
  return SteadyClock::Get().Now() + kMinute;
}

TEST_CASE("every LUN gets its turn, eight at once and no more") {
  const auto specs = Specs(40);
  std::vector<int> turns(specs.size());
  std::mutex mutex;
  std::condition_variable changed;
  size_t now = 0;
  size_t most = 0;
  const absl::Status status = ForEachLun(specs, "testing", Later(), [&](size_t i) {
    std::unique_lock lock(mutex);
    ++turns[i];
    most = std::max(most, ++now);
    changed.notify_all();
    // The first ones wait for each other: less than eight at once would not do.
    const bool met = changed.wait_for(lock, std::chrono::minutes(1), [&] { return most >= kLunsAtOnce; });
    --now;
    return met ? absl::OkStatus() : absl::InternalError("alone");
  });
  CHECK(status.ok());
  CHECK(most == kLunsAtOnce);
  CHECK(turns == std::vector<int>(specs.size(), 1));
}

TEST_CASE("the error is that of the first LUN in the list, and none begins after it") {
  const auto specs = Specs(100);
  std::atomic<size_t> begun{0};
  const absl::Status status = ForEachLun(specs, "testing", Later(), [&](size_t i) -> absl::Status {
    ++begun;
    if (i < 3) return absl::OkStatus();
    return NoLunError(specs[i], specs[i].luns.front(), "gone");
  });
  CHECK(GetErrorInfo(status).code == "ISCSI_NO_LUN");
  CHECK(GetErrorInfo(status).place == PlaceOf(specs[3], 4));
  CHECK(begun <= 3 + kLunsAtOnce);
}

TEST_CASE("when the time is over the error names the LUN and how far it went") {
  const auto specs = Specs(3);
  const Nanos deadline = SteadyClock::Get().Now();
  const absl::Status status = ForEachLun(specs, "reading both ends", deadline, [&](size_t i) -> absl::Status {
    if (i != 1) return absl::OkStatus();
    return ConnectError(specs[i], "no answer");
  });
  const ErrorInfo info = GetErrorInfo(status);
  CHECK(info.code == "ISCSI_TOO_SLOW");
  CHECK(info.place == PlaceOf(specs[1], 2));
  CHECK(info.message.find("while reading both ends") != std::string::npos);
  CHECK(info.message.find("of 3 LUNs were done") != std::string::npos);
  CHECK(info.message.find("no answer") != std::string::npos);
}

TEST_CASE("no LUN is no work") {
  CHECK(ForEachLun({}, "testing", Later(), [](size_t) { return absl::InternalError("called"); }).ok());
}

}  // namespace
}  // namespace muster
