#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

// Real file systems and block devices for tests, from sparse images behind loop devices. Needs root.
//
// Everything goes away with its object, on exceptions too. A crash leaves at most a temporary directory: mounts live in
// a mount namespace of the test process, and loop devices carry AUTOCLEAR, so the kernel drops both with the process.
namespace muster::test {

// Ends the process with exit code 77 (skipped) and the reason on stdout, unless it runs as root and loop devices exist.
void RequireRootOrSkip();
// Ends the process with exit code 77 and the reason.
[[noreturn]] void Skip(std::string_view reason);

// A new directory below TMPDIR (default /tmp), removed with all its content.
class TempDir {
 public:
  explicit TempDir(std::string_view name = "muster-test");  // throws std::runtime_error
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A loop device over a sparse image, with direct I/O where the image's file system offers it.
class LoopDevice {
 public:
  // `bytes`: size of the device. `image` is created; it must not exist. `sector`: logical block size.
  LoopDevice(const std::string& image, uint64_t bytes, uint32_t sector = 512);  // throws std::runtime_error
  // Detaches; waits a bounded time for what still holds the device. The image stays.
  ~LoopDevice();
  LoopDevice(const LoopDevice&) = delete;
  LoopDevice& operator=(const LoopDevice&) = delete;
  const std::string& path() const { return path_; }    // "/dev/loop3"
  const std::string& image() const { return image_; }  // the backing file

 private:
  std::string image_;
  std::string path_;
  int fd_ = -1;  // keeps the AUTOCLEAR device alive
};

enum class FsKind { kExt4, kXfs, kTmpfs };
std::string_view FsName(FsKind kind);

// A fresh file system, mounted in a mount namespace of this process (entered by the first one). Threads that were
// started before do not see it.
class MountedFs {
 public:
  // xfs needs at least 300 MiB; the image is sparse.
  MountedFs(FsKind kind, uint64_t bytes);  // throws std::runtime_error
  ~MountedFs();
  MountedFs(const MountedFs&) = delete;
  MountedFs& operator=(const MountedFs&) = delete;
  const std::string& path() const { return mount_point_; }

 private:
  TempDir dir_{"muster-fs"};
  std::string mount_point_;
  std::unique_ptr<LoopDevice> device_;  // none for tmpfs
};

// Runs a program (absolute path, no shell) and throws std::runtime_error with its output unless it exits with 0.
std::string RunProgram(const std::vector<std::string>& argv);

}  // namespace muster::test
