#include "agent/guard/device_ends.h"

#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "agent/guard/fd.h"
#include "common/base/status.h"

namespace muster {
namespace {

constexpr uint64_t kMiB = 1 << 20;

// A sparse file in memory stands for the device: what is examined is only what pread gives.
class FakeDevice {
 public:
  explicit FakeDevice(uint64_t size) : fd_(memfd_create("device", MFD_CLOEXEC)), size_(size) {
    REQUIRE(ftruncate(fd_.get(), static_cast<off_t>(size)) == 0);
  }
  void Put(uint64_t offset, uint8_t byte) const {
    REQUIRE(pwrite(fd_.get(), &byte, 1, static_cast<off_t>(offset)) == 1);
  }
  void PutLabel(uint64_t device_size) const {
    Label label;
    label.uuid = NewUuid();
    label.generation = 1;
    label.device_size = device_size;
    REQUIRE(WriteLabel(fd_.get(), label, 512, "device").ok());
  }
  DeviceEnds Ends() const {
    const auto ends = ReadEnds(fd_.get(), size_, "device");
    REQUIRE(ends.ok());
    return *ends;
  }
  int fd() const { return fd_.get(); }

 private:
  Fd fd_;
  uint64_t size_;
};

TEST_CASE("zeros are blank, at any size") {
  for (const uint64_t size : {uint64_t{512}, 4096 * uint64_t{3}, 3 * kMiB, 16 * kMiB, 16 * kMiB + 512, 100 * kMiB}) {
    INFO(size);
    CHECK(FakeDevice(size).Ends().content == Content::kBlank);
  }
}

TEST_CASE("one byte in the first or last 8 MiB makes it foreign, and its offset is told") {
  const uint64_t size = 100 * kMiB;
  for (const uint64_t at : {uint64_t{0}, uint64_t{4096}, 8 * kMiB - 1, size - 8 * kMiB, size - kMiB - 7, size - 1}) {
    const FakeDevice device(size);
    device.Put(at, 1);
    const DeviceEnds ends = device.Ends();
    INFO(at);
    CHECK(ends.content == Content::kForeign);
    CHECK(ends.first_nonzero == at);
    CHECK_FALSE(ends.label.has_value());
  }
}

TEST_CASE("the middle is not examined") {
  const FakeDevice device(100 * kMiB);
  device.Put(8 * kMiB, 1);
  device.Put(92 * kMiB - 1, 1);
  CHECK(device.Ends().content == Content::kBlank);
}

TEST_CASE("with overlapping ends every byte counts") {
  for (const uint64_t at : {uint64_t{0}, 5 * kMiB, 10 * kMiB - 1}) {
    const FakeDevice device(10 * kMiB);
    device.Put(at, 0x80);
    CHECK(device.Ends().first_nonzero == at);
    CHECK(device.Ends().content == Content::kForeign);
  }
}

TEST_CASE("a label makes it ours, whatever the working set between the reserved ends holds") {
  const FakeDevice device(64 * kMiB);
  device.PutLabel(64 * kMiB);
  CHECK(device.Ends().content == Content::kOurs);
  device.Put(kMiB, 1);
  device.Put(63 * kMiB - 1, 1);
  const DeviceEnds ends = device.Ends();
  CHECK(ends.content == Content::kOurs);
  REQUIRE(ends.label.has_value());
  CHECK(ends.label->generation == 1);
}

TEST_CASE("a label beside foreign bytes in the reserved ends is not enough") {
  for (const uint64_t at : {uint64_t{4096}, kMiB - 1, 63 * kMiB, 64 * kMiB - 1}) {
    const FakeDevice device(64 * kMiB);
    device.PutLabel(64 * kMiB);
    device.Put(at, 1);
    const DeviceEnds ends = device.Ends();
    INFO(at);
    CHECK(ends.content == Content::kForeign);
    CHECK(ends.first_nonzero == at);
    CHECK_THAT(ends.why, Catch::Contains(std::to_string(at)));
  }
}

TEST_CASE("the label of a device of another size is not ours") {
  const FakeDevice device(64 * kMiB);
  device.PutLabel(32 * kMiB);
  CHECK(device.Ends().content == Content::kForeign);
  CHECK_THAT(device.Ends().why, Catch::Contains(std::to_string(32 * kMiB)));
}

TEST_CASE("zeroing touches the reserved ends alone") {
  const FakeDevice device(64 * kMiB);
  for (const uint64_t at : {uint64_t{0}, kMiB - 1, kMiB, 63 * kMiB - 1, 63 * kMiB, 64 * kMiB - 1}) device.Put(at, 9);
  REQUIRE(ZeroReserved(device.fd(), 64 * kMiB, "device").ok());
  const auto byte = [&](uint64_t at) {
    uint8_t value = 0xFF;
    REQUIRE(pread(device.fd(), &value, 1, static_cast<off_t>(at)) == 1);
    return value;
  };
  CHECK(byte(0) == 0);
  CHECK(byte(kMiB - 1) == 0);
  CHECK(byte(kMiB) == 9);
  CHECK(byte(63 * kMiB - 1) == 9);
  CHECK(byte(63 * kMiB) == 0);
  CHECK(byte(64 * kMiB - 1) == 0);
}

TEST_CASE("a device that ends early is an error, not blank") {
  const FakeDevice device(kMiB);
  CHECK_FALSE(ReadEnds(device.fd(), 4 * kMiB, "device").ok());
}

}  // namespace
}  // namespace muster
