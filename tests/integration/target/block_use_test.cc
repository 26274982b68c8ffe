// Who uses a device, who may touch it, and what the agents beside the guard see.
#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/swap.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "agent/backend/uring_backend.h"
#include "agent/guard/fd.h"
#include "agent/guard/label.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "tests/integration/target/rig.h"

namespace muster::test {
namespace {

namespace fs = std::filesystem;

// Partition 1 of the device, from 1 MiB on, 16 MiB long, known to the kernel for the life of the object.
class Partition {
 public:
  explicit Partition(const DeviceRig& rig) : disk_(rig.path()) {
    RunProgram(
        {"/bin/sh", "-c", "echo 'start=2048,size=32768' | /usr/sbin/sfdisk -q --no-reread --no-tell-kernel " + disk_});
    RunProgram({"/usr/bin/partx", "-a", disk_});
  }
  ~Partition() {
    try {
      if (fs::exists(path())) RunProgram({"/usr/bin/partx", "-d", disk_});
    } catch (const std::exception& error) {
      fprintf(stderr, "%s\n", error.what());
    }
  }
  std::string path() const { return disk_ + "p1"; }
  bool exists() const { return fs::exists(path()); }

 private:
  std::string disk_;
};

TEST_CASE("a mounted device is refused, whatever the campaign permits") {
  const DeviceRig rig;
  RunProgram({"/usr/sbin/mkfs.ext4", "-q", "-F", rig.path()});
  const Mount mount(rig.path());
  rig.Refuses("TARGET_MOUNTED", mount.point());
  AttachRequest request = rig.Request();
  std::get<BlockTarget>(request.target.kind).overwrite = Overwrite{rig.image(), rig.size()};
  rig.Refuses(request, rig.Allow(), "TARGET_MOUNTED", mount.point());
}

TEST_CASE("a mount in another mount namespace is seen by the exclusive open") {
  const DeviceRig rig;
  RunProgram({"/usr/sbin/mkfs.ext4", "-q", "-F", rig.path()});
  const TempDir point("muster-mount");
  int ready[2];
  int done[2];
  REQUIRE(pipe2(ready, O_CLOEXEC) == 0);
  REQUIRE(pipe2(done, O_CLOEXEC) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const bool mounted = unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                         mount(rig.path().c_str(), point.path().c_str(), "ext4", MS_RDONLY, nullptr) == 0;
    char byte = mounted ? 'y' : 'n';
    if (write(ready[1], &byte, 1) != 1) _exit(1);
    close(done[1]);
    if (read(done[0], &byte, 1) < 0) _exit(1);  // until the parent closes its end
    umount2(point.path().c_str(), MNT_DETACH);
    _exit(0);
  }
  char byte = 0;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  CHECK(byte == 'y');
  rig.Refuses("TARGET_HELD", "exclusive open");
  close(done[1]);
  close(done[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  close(ready[0]);
  close(ready[1]);
}

TEST_CASE("a disk with a mounted partition is refused, and so is the partition") {
  const DeviceRig rig;
  const Partition partition(rig);
  REQUIRE(partition.exists());
  RunProgram({"/usr/sbin/mkfs.ext4", "-q", "-F", partition.path()});
  const Mount mount(partition.path());
  rig.Refuses("TARGET_MOUNTED", "p1 is mounted on " + mount.point());
  AttachRequest request = rig.Request();
  std::get<BlockTarget>(request.target.kind).device = partition.path();
  rig.Refuses(request, {{}, {partition.path()}}, "TARGET_MOUNTED", mount.point());
}

TEST_CASE("a partition is a target of its own, its disk is not touched by it") {
  const DeviceRig rig;
  const Partition partition(rig);
  AttachRequest request = rig.Request();
  std::get<BlockTarget>(request.target.kind).device = partition.path();
  CHECK(CodeOf(Attach(request, rig.Allow())) == "NOT_ALLOWED");  // the disk is allowed, the partition not
  const std::string head = rig.Get(0, kMiB);
  const auto attached = Attach(request, {{}, {partition.path()}});
  REQUIRE(CodeOf(attached) == "OK");
  CHECK((*attached)->objects()[0].size == 14 * kMiB);
  rig.Refuses("TARGET_HELD");  // the partition is claimed, so is its disk
  REQUIRE((*attached)->Detach().ok());
  const bool unchanged = rig.Get(0, kMiB) == head;
  CHECK(unchanged);
  // The disk's identity does not free the partition.
  rig.Put(kMiB + 8192, "x");
  std::get<BlockTarget>(request.target.kind).overwrite = Overwrite{rig.image(), 16 * kMiB};
  rig.Refuses(request, {{}, {partition.path()}}, "TARGET_WRONG_ID", rig.image() + "-part1");
}

TEST_CASE("overwriting a disk makes the kernel forget its old partitions") {
  const DeviceRig rig;
  const Partition partition(rig);
  AttachRequest request = rig.Request();
  std::get<BlockTarget>(request.target.kind).overwrite = Overwrite{rig.image(), rig.size()};
  SECTION("unused") {
    REQUIRE(CodeOf(Attach(request, rig.Allow())) == "OK");
    CHECK_FALSE(partition.exists());
  }
  SECTION("held open by somebody") {
    const Fd user(open(partition.path().c_str(), O_RDONLY | O_CLOEXEC));
    REQUIRE(user);
    const std::string before = rig.All();
    CHECK(CodeOf(Attach(request, rig.Allow())) == "TARGET_HELD");
    const bool unchanged = rig.All() == before;
    CHECK(unchanged);
    CHECK(partition.exists());
  }
}

TEST_CASE("swap space in use is refused") {
  const DeviceRig rig;
  RunProgram({"/usr/sbin/mkswap", rig.path()});
  if (swapon(rig.path().c_str(), 0) != 0) {
    WARN("swapon does not work on a loop device here (" << strerror(errno) << "); not covered");
    return;
  }
  struct Off {
    std::string path;
    ~Off() { swapoff(path.c_str()); }
  } off{rig.path()};
  rig.Refuses("TARGET_SWAP", "in use as swap space");
}

TEST_CASE("a device below another one is refused") {
  const DeviceRig rig;
  const std::string top = [&] {
    std::string path = RunProgram({"/usr/sbin/losetup", "-f", "--show", rig.path()});
    while (!path.empty() && path.back() == '\n') path.pop_back();
    return path;
  }();
  struct Detach {
    std::string path;
    ~Detach() { RunProgram({"/usr/sbin/losetup", "-d", path}); }
  } detach{top};
  rig.Refuses("TARGET_HELD", "backs " + top);
}

TEST_CASE("a device that somebody holds exclusively is refused") {
  const DeviceRig rig;
  {
    const Fd held(open(rig.path().c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
    REQUIRE(held);
    rig.Refuses("TARGET_HELD", "exclusive open");
  }
  const auto run = rig.AttachGuard();
  REQUIRE(CodeOf(run) == "OK");
  rig.Refuses("TARGET_HELD");
  REQUIRE((*run)->Detach().ok());
  CHECK(CodeOf(rig.AttachGuard()) == "OK");
}

TEST_CASE("a read-only device is refused for writing") {
  const DeviceRig rig;
  const Fd fd(open(rig.path().c_str(), O_RDONLY | O_CLOEXEC));
  int on = 1;
  REQUIRE(ioctl(fd.get(), BLKROSET, &on) == 0);
  rig.Refuses("TARGET_READ_ONLY");
  AttachRequest request = rig.Request();
  request.writes = false;
  CHECK(CodeOf(Attach(request, rig.Allow())) == "OK");
  int off = 0;
  REQUIRE(ioctl(fd.get(), BLKROSET, &off) == 0);
}

TEST_CASE("only devices on the allow list, by whatever name") {
  const DeviceRig rig;
  const DeviceRig other;
  const TempDir dir("muster-links");
  const std::string link = dir.path() + "/disk-by-some-id";
  fs::create_symlink(rig.path(), link);
  rig.Refuses(rig.Request(), {}, "NOT_ALLOWED", "not allowed");
  rig.Refuses(rig.Request(), {{"/"}, {other.path(), "loop", "", "/nonexistent"}}, "NOT_ALLOWED");
  CHECK(CodeOf(Attach(rig.Request(), {{}, {link}})) == "OK");
  AttachRequest by_link = rig.Request();
  std::get<BlockTarget>(by_link.target.kind).device = link;
  CHECK(CodeOf(Attach(by_link, rig.Allow())) == "OK");
  fs::remove(link);
  fs::create_symlink(other.path(), link);
  rig.Refuses(by_link, rig.Allow(), "NOT_ALLOWED");
}

TEST_CASE("what is no block device, or not there, is told apart") {
  const DeviceRig rig;
  AttachRequest request = rig.Request();
  auto& device = std::get<BlockTarget>(request.target.kind).device;
  const auto code = [&](const std::string& path) {
    device = path;
    return CodeOf(Attach(request, {{}, {path}}));
  };
  CHECK(code(rig.image()) == "TARGET_NOT_BLOCK");
  CHECK(code("/dev/null") == "TARGET_NOT_BLOCK");
  CHECK(code("/dev") == "TARGET_NOT_BLOCK");
  CHECK(code("/dev/disk/by-id/nothing-like-this") == "TARGET_NOT_FOUND");
  CHECK(code("loop0") == "TARGET_NOT_FOUND");
  CHECK(code("") == "TARGET_NOT_FOUND");
}

TEST_CASE("a working set beyond the device is refused with both numbers") {
  const DeviceRig rig;
  AttachRequest request = rig.Request();
  request.objects[0].size = rig.size() - 2 * kMiB;
  CHECK(rig.Look(request).writable);
  request.objects[0].size += 1;
  rig.Refuses(request, rig.Allow(), "TARGET_TOO_SMALL", std::to_string(rig.size() - 2 * kMiB));
  const DeviceRig tiny(kMiB);
  request = tiny.Request();
  request.objects[0].size = 4096;
  tiny.Refuses(request, tiny.Allow(), "TARGET_TOO_SMALL", "offers 0");
}

TEST_CASE("a block smaller than the device's is refused before anything is written") {
  const DeviceRig rig(24 * kMiB, 4096);
  AttachRequest request = rig.Request();
  request.min_block = 512;
  CHECK(CodeOf(Attach(request, rig.Allow())) == "BLOCK_ALIGNMENT");
  const bool blank = rig.All() == std::string(rig.size(), '\0');
  CHECK(blank);
  request.min_block = 8192;
  const auto attached = Attach(request, rig.Allow());
  REQUIRE(CodeOf(attached) == "OK");
  CHECK((*attached)->objects()[0].logical_block == 4096);
}

TEST_CASE("the other agents go by the label's generation") {
  const DeviceRig rig;
  AttachRequest follower = rig.Request();
  follower.guard = false;
  follower.generation = 1;
  CHECK(CodeOf(Attach(follower, rig.Allow())) == "LABEL_CHANGED");  // no label yet
  const auto guard = rig.AttachGuard();
  REQUIRE(CodeOf(guard) == "OK");
  const auto other = Attach(follower, rig.Allow());  // while the guard holds the device
  REQUIRE(CodeOf(other) == "OK");
  CHECK((*other)->generation() == 1);
  CHECK((*other)->objects()[0].base == kMiB);
  follower.generation = 2;
  const auto stale = Attach(follower, rig.Allow());
  CHECK(CodeOf(stale) == "LABEL_CHANGED");
  CHECK_THAT(std::string(stale.status().message()), Catch::Contains("generation 1, this run wrote 2"));
}

TEST_CASE("reading needs no guard: all of an unlabelled device, the working area of a labelled one") {
  const DeviceRig rig;
  RunProgram({"/usr/sbin/mkfs.ext4", "-q", "-F", rig.path()});
  AttachRequest reader = rig.Request();
  reader.writes = false;
  reader.objects[0].size = rig.size();
  {
    const Mount mount(rig.path());
    const auto attached = Attach(reader, rig.Allow());
    REQUIRE(CodeOf(attached) == "OK");
    CHECK((*attached)->objects()[0].base == 0);
    CHECK((*attached)->objects()[0].size == rig.size());
    CHECK((*attached)->generation() == 0);
    char byte = 'x';
    CHECK(pwrite((*attached)->objects()[0].fd, &byte, 1, 0) == -1);
    CHECK(errno == EBADF);
    CHECK(rig.Look(false).would_write == "nothing");
  }
  reader.objects[0].size = rig.size() + 1;
  CHECK(CodeOf(Attach(reader, rig.Allow())) == "TARGET_TOO_SMALL");

  const DeviceRig ours;
  REQUIRE(ours.AttachGuard().ok());
  reader = ours.Request();
  reader.writes = false;
  const auto attached = Attach(reader, ours.Allow());
  REQUIRE(CodeOf(attached) == "OK");
  CHECK((*attached)->objects()[0].base == kMiB);
}

TEST_CASE("no operation reaches the reserved ends of a labelled device") {
  const DeviceRig rig;
  const auto attached = rig.AttachGuard();
  REQUIRE(CodeOf(attached) == "OK");
  const std::string label = rig.Get(0, kMiB);
  const BackendObject object = (*attached)->objects()[0];
  alignas(4096) static uint8_t buffer[4096];
  std::fill(std::begin(buffer), std::end(buffer), uint8_t{'w'});
  const auto backend = MakeUringBackend();
  const Nanos deadline = SteadyClock::Get().Now() + 60 * kSecond;
  REQUIRE(backend->Open({&object, 1}, {}, {.depth = 8}, deadline).ok());
  std::vector<IoOp> ops;
  for (const uint64_t offset : {uint64_t{0}, object.size - 4096, object.size - 512, object.size, UINT64_MAX - 4095}) {
    ops.push_back({.offset = offset, .buffer = buffer, .tag = ops.size(), .bytes = 4096, .kind = IoKind::kWrite});
  }
  ops.push_back({.offset = object.size - 4096, .tag = ops.size(), .bytes = 8192, .kind = IoKind::kTrim});
  REQUIRE(backend->Submit(ops, SteadyClock::Get().Now()) == ops.size());
  std::vector<int> codes(ops.size(), -1);
  for (size_t done = 0; done < ops.size() && SteadyClock::Get().Now() < deadline;) {
    IoCompletion out[8];
    const size_t n = backend->Reap(out, SteadyClock::Get().Now());
    for (size_t i = 0; i < n; ++i) codes[out[i].tag] = out[i].native_code;
    done += n;
    if (n == 0) backend->WaitUntil(deadline);
  }
  CHECK(codes == std::vector<int>{0, 0, EINVAL, EINVAL, EINVAL, EINVAL});
  REQUIRE(backend->Close());
  CHECK(rig.Get(kMiB, 4096) == std::string(4096, 'w'));
  CHECK(rig.Get(rig.size() - kMiB - 4096, 4096) == std::string(4096, 'w'));
  const bool head_unchanged = rig.Get(0, kMiB) == label;
  CHECK(head_unchanged);
  const bool tail_unchanged = rig.Get(rig.size() - kMiB, kMiB) == std::string(kMiB, '\0');
  CHECK(tail_unchanged);
}

}  // namespace
}  // namespace muster::test
