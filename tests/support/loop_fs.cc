#include "tests/support/loop_fs.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <sched.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "common/base/clock.h"
#include "fmt/format.h"

namespace muster::test {
namespace {

constexpr Nanos kReleaseDeadline = 20 * kSecond;

[[noreturn]] void Fail(std::string_view what, std::string_view place) {
  throw std::runtime_error(fmt::format("{} {}: {}", what, place, strerrordesc_np(errno)));
}

// Tries until it works or the deadline has passed; what is awaited is asynchronous in the kernel (ring tear-down,
// delayed release of the last reference).
template <typename Try>
bool Eventually(Try&& attempt) {
  const SteadyClock clock;  // not the shared one: fixtures may end after it, at exit
  const Nanos deadline = clock.Now() + kReleaseDeadline;
  while (!attempt()) {
    if (clock.Now() > deadline) return false;
    sched_yield();
  }
  return true;
}

void EnterPrivateMounts() {
  static bool entered = false;
  if (entered) return;
  if (unshare(CLONE_NEWNS) != 0) Fail("unshare", "mount namespace");
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) Fail("make private", "/");
  entered = true;
}

}  // namespace

void Skip(std::string_view reason) {
  fmt::print("SKIPPED: {}\n", reason);
  std::fflush(stdout);
  std::exit(77);
}

void RequireRootOrSkip() {
  if (geteuid() != 0) Skip("needs root for loop devices and mounts");
  const int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
  if (control < 0) Skip("needs loop devices: /dev/loop-control cannot be opened");
  close(control);
}

std::string RunProgram(const std::vector<std::string>& argv) {
  int out[2];
  if (pipe2(out, O_CLOEXEC) != 0) Fail("pipe for", argv[0]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDERR_FILENO);
  std::vector<char*> args;
  args.reserve(argv.size() + 1);
  for (const std::string& arg : argv) args.push_back(const_cast<char*>(arg.c_str()));
  args.push_back(nullptr);
  pid_t pid = 0;
  const int err = posix_spawn(&pid, args[0], &actions, nullptr, args.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(out[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n = 0; err == 0 && (n = read(out[0], buffer, sizeof buffer)) > 0;) text.append(buffer, n);
  close(out[0]);
  if (err != 0) {
    errno = err;
    Fail("start", argv[0]);
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    throw std::runtime_error(fmt::format("{} failed with status {}: {}", fmt::join(argv, " "), status, text));
  }
  return text;
}

TempDir::TempDir(std::string_view name) {
  const char* base = std::getenv("TMPDIR");
  path_ = fmt::format("{}/{}.XXXXXX", base != nullptr && *base != 0 ? base : "/tmp", name);
  if (mkdtemp(path_.data()) == nullptr) Fail("mkdtemp", path_);
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

LoopDevice::LoopDevice(const std::string& image, uint64_t bytes, uint32_t sector) : image_(image) {
  const int file = open(image.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) Fail("create", image);
  const int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
  int err = ftruncate(file, static_cast<off_t>(bytes)) == 0 && control >= 0 ? 0 : errno;
  // Between asking for a free device and taking it somebody else may take it; the bound is far above any such race.
  for (int attempt = 0; err == 0 && fd_ < 0; ++attempt) {
    const int number = ioctl(control, LOOP_CTL_GET_FREE);
    if (number < 0 || attempt == 1000) {
      err = number < 0 ? errno : EBUSY;
      break;
    }
    path_ = fmt::format("/dev/loop{}", number);
    const int fd = open(path_.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) {
      // ENXIO: somebody's device of that number is just being detached.
      if (errno != ENXIO) err = errno;
      sched_yield();
      continue;
    }
    loop_config config{};
    config.fd = static_cast<uint32_t>(file);
    config.block_size = sector;
    config.info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO;
    std::strncpy(reinterpret_cast<char*>(config.info.lo_file_name), image.c_str(), LO_NAME_SIZE - 1);
    if (ioctl(fd, LOOP_CONFIGURE, &config) == 0) {
      fd_ = fd;
    } else {
      if (errno != EBUSY) err = errno;
      close(fd);
    }
  }
  if (control >= 0) close(control);
  close(file);
  if (fd_ < 0) {
    unlink(image.c_str());
    errno = err;
    Fail("attach a loop device to", image);
  }
}

LoopDevice::~LoopDevice() {
  ioctl(fd_, LOOP_CLR_FD);  // marks it; the last close detaches
  close(fd_);
  const bool free = Eventually([&] {
    const int fd = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return true;
    loop_info64 info{};
    const bool gone =
        ioctl(fd, LOOP_GET_STATUS64, &info) != 0 ||
        std::strncmp(image_.c_str(), reinterpret_cast<const char*>(info.lo_file_name), LO_NAME_SIZE - 1) != 0;
    close(fd);
    return gone;
  });
  if (!free) fmt::print(stderr, "{} is still attached to {}\n", path_, image_);
}

std::string_view FsName(FsKind kind) {
  return kind == FsKind::kExt4 ? "ext4" : kind == FsKind::kXfs ? "xfs" : "tmpfs";
}

MountedFs::MountedFs(FsKind kind, uint64_t bytes) : mount_point_(dir_.path() + "/mnt") {
  EnterPrivateMounts();
  if (mkdir(mount_point_.c_str(), 0700) != 0) Fail("mkdir", mount_point_);
  std::string source = "tmpfs";
  std::string options;
  if (kind == FsKind::kTmpfs) {
    options = fmt::format("size={}", bytes);
  } else {
    device_ = std::make_unique<LoopDevice>(dir_.path() + "/image", bytes);
    source = device_->path();
    if (kind == FsKind::kExt4) {
      RunProgram({"/usr/sbin/mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1", source});
      options = "noinit_itable";
    } else {
      RunProgram({"/usr/sbin/mkfs.xfs", "-q", "-f", source});
    }
  }
  if (mount(source.c_str(), mount_point_.c_str(), FsName(kind).data(), 0, options.c_str()) != 0) {
    Fail("mount", fmt::format("{} on {}", source, mount_point_));
  }
}

MountedFs::~MountedFs() {
  if (!Eventually([&] { return umount2(mount_point_.c_str(), 0) == 0 || errno != EBUSY; })) {
    fmt::print(stderr, "{} stayed busy and is detached lazily\n", mount_point_);
    umount2(mount_point_.c_str(), MNT_DETACH);
  }
}

}  // namespace muster::test
