#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "agent/target/target.h"
#include "tests/support/loop_fs.h"

// A loop device as target of a campaign, and what the tests ask of it.
namespace muster::test {

inline constexpr uint64_t kMiB = 1 << 20;

// "OK" or the code of the typed error.
std::string CodeOf(const absl::Status& status);
template <typename T>
std::string CodeOf(const absl::StatusOr<T>& result) {
  return CodeOf(result.status());
}

class DeviceRig {
 public:
  explicit DeviceRig(uint64_t bytes = 24 * kMiB, uint32_t sector = 512);
  const std::string& path() const { return device_->path(); }
  const std::string& image() const { return device_->image(); }
  uint64_t size() const { return bytes_; }
  // Another device, blank, in place of this one; the path may be the same.
  void Replace();

  // A writing guard request of 4 MiB working set, allowed to touch the device.
  AttachRequest Request() const;
  AllowList Allow() const { return {{}, {path()}}; }
  absl::StatusOr<std::unique_ptr<AttachedTarget>> AttachGuard() const { return Attach(Request(), Allow()); }
  TargetInspection Look(bool writes = true) const;
  TargetInspection Look(const AttachRequest& request) const;

  void Put(uint64_t offset, const std::string& bytes) const;
  std::string Get(uint64_t offset, size_t bytes) const;
  std::string All() const { return Get(0, bytes_); }

  // Attach and Inspect refuse `request` with `code` and words of `text`, and not one byte of the device changes.
  void Refuses(const AttachRequest& request, const AllowList& allow, const std::string& code,
               const std::string& text = "") const;
  void Refuses(const std::string& code, const std::string& text = "") const { Refuses(Request(), Allow(), code, text); }

 private:
  TempDir dir_{"muster-target"};
  uint64_t bytes_;
  uint32_t sector_;
  int images_ = 0;
  std::unique_ptr<LoopDevice> device_;
};

// The device mounted read-only (ext4 writes in the background otherwise, and the tests compare every byte) on a
// directory of its own, in a mount namespace of this process.
class Mount {
 public:
  explicit Mount(const std::string& device, const char* type = "ext4");
  ~Mount();
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;
  const std::string& point() const { return dir_.path(); }

 private:
  TempDir dir_{"muster-mount"};
};

}  // namespace muster::test
