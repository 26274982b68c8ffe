#include "tests/integration/target/rig.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "agent/guard/fd.h"
#include "common/base/status.h"

namespace muster::test {

std::string CodeOf(const absl::Status& status) {
  return GetErrorInfo(status).code;
}

DeviceRig::DeviceRig(uint64_t bytes, uint32_t sector) : bytes_(bytes), sector_(sector) {
  RequireRootOrSkip();
  Replace();
}

void DeviceRig::Replace() {
  device_.reset();
  device_ = std::make_unique<LoopDevice>(dir_.path() + "/image" + std::to_string(images_++), bytes_, sector_);
}

AttachRequest DeviceRig::Request() const {
  AttachRequest request;
  request.run = "test-run";
  BlockTarget block;
  block.device = path();
  request.target = {"disk", block};
  request.objects = {{0, "", 4 * kMiB}};
  request.writes = true;
  request.guard = true;
  return request;
}

TargetInspection DeviceRig::Look(bool writes) const {
  const AttachRequest request = Request();
  return Inspect(request.target, request.objects, writes, Allow());
}

TargetInspection DeviceRig::Look(const AttachRequest& request) const {
  return Inspect(request.target, request.objects, request.writes, Allow());
}

void DeviceRig::Put(uint64_t offset, const std::string& bytes) const {
  const Fd fd(open(path().c_str(), O_WRONLY | O_CLOEXEC));
  REQUIRE(fd);
  REQUIRE(pwrite(fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)) ==
          static_cast<ssize_t>(bytes.size()));
  REQUIRE(fsync(fd.get()) == 0);
}

std::string DeviceRig::Get(uint64_t offset, size_t bytes) const {
  const Fd fd(open(path().c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(fd);
  std::string text(bytes, '\0');
  REQUIRE(pread(fd.get(), text.data(), bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes));
  return text;
}

void DeviceRig::Refuses(const AttachRequest& request, const AllowList& allow, const std::string& code,
                        const std::string& text) const {
  const std::string before = All();
  const TargetInspection inspection = Inspect(request.target, request.objects, request.writes, allow);
  CHECK(CodeOf(inspection.refusal) == code);
  CHECK_FALSE(inspection.writable);
  CHECK_FALSE(inspection.verdict.empty());
  const auto attached = Attach(request, allow);
  CHECK(CodeOf(attached) == code);
  const ErrorInfo error = GetErrorInfo(attached.status());
  CHECK_THAT(error.message, Catch::Contains(text));
  CHECK_THAT(error.place, Catch::Contains(std::get<BlockTarget>(request.target.kind).device));
  CHECK_FALSE(error.next.empty());
  const bool unchanged = All() == before;  // not inside CHECK: it would print both
  CHECK(unchanged);
}

Mount::Mount(const std::string& device, const char* type) {
  static const bool entered =
      unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
  REQUIRE(entered);
  REQUIRE(mount(device.c_str(), point().c_str(), type, MS_RDONLY, nullptr) == 0);
}

Mount::~Mount() {
  umount2(point().c_str(), MNT_DETACH);
}

}  // namespace muster::test
