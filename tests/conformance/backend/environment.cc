#include "tests/conformance/backend/environment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "agent/backend/iscsi/iscsi_backend.h"
#include "agent/backend/null_backend.h"
#include "agent/backend/uring_backend.h"
#include "fmt/format.h"
#include "tests/support/iscsi_proxy.h"
#include "tests/support/loop_fs.h"
#include "tests/support/tgt.h"

namespace muster::test {
namespace {

constexpr Nanos kPatience = 60 * kSecond;
constexpr uint64_t kDeviceSize = 32 << 20;

[[noreturn]] void Fail(std::string_view what) {
  throw std::runtime_error(fmt::format("{}: {}", what, strerrordesc_np(errno)));
}

class NullEnvironment final : public Environment {
 public:
  std::string name() const override { return "null"; }
  bool has_content() const override { return false; }
  bool checks_bounds() const override { return false; }
  bool driven_by_time() const override { return true; }
  std::unique_ptr<Rig> Make(uint32_t depth, uint64_t size) override {
    return Opened({.latency = 200 * kMicrosecond, .shape = LatencyShape::kExponential}, depth, size);
  }
  std::unique_ptr<Rig> MakeHanging(uint32_t depth) override { return Opened({.hang = true}, depth, 1 << 20); }

 private:
  static std::unique_ptr<Rig> Opened(const NullTarget& target, uint32_t depth, uint64_t size) {
    auto rig = std::make_unique<Rig>(MakeNullBackend(target, 1), -1, size, depth);
    rig->Open();
    return rig;
  }
};

// A pipe is a file whose reads end when we want.
std::unique_ptr<Rig> HangingPipe(const UringOptions& options, uint32_t depth) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) Fail("pipe");
  auto rig = std::make_unique<Rig>(MakeUringBackend(options), ends[0], 1 << 20, depth);
  std::shared_ptr<int> writer(new int(ends[1]), [](const int* fd) {
    close(*fd);
    delete fd;
  });
  rig->release = [writer, depth] {
    const std::vector<char> bytes(4096, 'x');
    for (uint32_t i = 0; i < depth; ++i) {
      if (write(*writer, bytes.data(), bytes.size()) != 4096) Fail("write to the pipe");
    }
  };
  rig->Open();
  return rig;
}

class FileEnvironment final : public Environment {
 public:
  FileEnvironment(FsKind kind, uint64_t bytes, bool direct, std::string note = "", UringOptions options = {})
      : fs_(kind, bytes), kind_(kind), direct_(direct), note_(std::move(note)), options_(options) {}
  std::string name() const override {
    return fmt::format("uring on {}{}{}", FsName(kind_), direct_ ? ", O_DIRECT" : ", buffered", note_);
  }
  bool checks_alignment() const override { return direct_ && kind_ != FsKind::kTmpfs; }
  bool grows() const override { return true; }
  std::unique_ptr<Rig> Make(uint32_t depth, uint64_t size) override {
    const std::string path = fs_.path() + "/object";
    unlink(path.c_str());
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | (direct_ ? O_DIRECT : 0), 0600);
    if (fd < 0) Fail("open " + path);
    auto rig = std::make_unique<Rig>(MakeUringBackend(options_), fd, size, depth);
    for (uint64_t at = 0; at < size; at += Rig::kBuffer) {
      if (pwrite(fd, rig->buffer(0), Rig::kBuffer, static_cast<off_t>(at)) != Rig::kBuffer) Fail("lay out " + path);
    }
    rig->Open();
    return rig;
  }
  std::unique_ptr<Rig> MakeHanging(uint32_t depth) override { return HangingPipe(options_, depth); }

 private:
  MountedFs fs_;
  FsKind kind_;
  bool direct_;
  std::string note_;
  UringOptions options_;
};

class LoopEnvironment final : public Environment {
 public:
  std::string name() const override { return "uring on a loop device, O_DIRECT"; }
  bool checks_alignment() const override { return true; }
  std::unique_ptr<Rig> Make(uint32_t depth, uint64_t /*size: that of the device*/) override {
    const int fd = open(device_.path().c_str(), O_RDWR | O_CLOEXEC | O_DIRECT);
    if (fd < 0) Fail("open " + device_.path());
    auto rig = std::make_unique<Rig>(MakeUringBackend(), fd, kDeviceSize, depth);
    rig->Open();
    return rig;
  }
  std::unique_ptr<Rig> MakeHanging(uint32_t depth) override { return HangingPipe({}, depth); }

 private:
  TempDir dir_{"muster-loop"};
  LoopDevice device_{dir_.path() + "/image", kDeviceSize};
};

// A LUN of a real target. Reads hang in a proxy that holds their answers back.
class IscsiEnvironment final : public Environment {
 public:
  IscsiEnvironment() { target_ = tgt_.AddTarget(kTarget); }
  std::string name() const override { return "iscsi on tgtd"; }
  bool checks_alignment() const override { return true; }
  bool has_descriptor() const override { return false; }
  bool is_connection() const override { return true; }
  std::unique_ptr<Rig> Make(uint32_t depth, uint64_t size) override { return Opened(tgt_.port(), depth, size); }
  std::unique_ptr<Rig> MakeHanging(uint32_t depth) override {
    proxies_.push_back(std::make_unique<IscsiProxy>(tgt_.port()));
    IscsiProxy* const proxy = proxies_.back().get();
    auto rig = Opened(proxy->port(), depth, 1 << 20);
    proxy->HoldReads(true);
    rig->release = [proxy, depth] { proxy->Release(depth); };
    return rig;
  }

 private:
  static constexpr const char* kTarget = "iqn.2026-01.io.example.test:conformance";

  std::unique_ptr<Rig> Opened(uint16_t port, uint32_t depth, uint64_t size) {
    // A fresh LUN each time: zeroes, of just this size.
    const int lun = next_lun_++;
    tgt_.AddLun(target_, lun, {.bytes = size});
    IscsiConnectionSpec spec;
    spec.host = "127.0.0.1";
    spec.port = port;
    spec.target = kTarget;
    spec.initiator = "iqn.2026-01.io.example.test:host";
    spec.isid_qualifier = static_cast<uint16_t>(lun);
    spec.luns = {static_cast<uint16_t>(lun)};
    auto rig = std::make_unique<Rig>(MakeIscsiBackend(spec), -1, size, depth);
    rig->Open();
    return rig;
  }

  Tgt tgt_;
  int target_ = 0;
  int next_lun_ = 1;
  std::vector<std::unique_ptr<IscsiProxy>> proxies_;
};

}  // namespace

Rig::Rig(std::unique_ptr<Backend> backend, int fd, uint64_t size, uint32_t depth)
    : backend_(std::move(backend)), size_(size), depth_(depth) {
  object_.fd = fd;
  object_.size = size;
  void* memory = mmap(nullptr, size_t{depth} * kBuffer, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) Fail("mmap");
  pool_ = static_cast<uint8_t*>(memory);
  region_ = {pool_, size_t{depth} * kBuffer};
}

Rig::~Rig() {
  backend_->Close();
  if (object_.fd >= 0) close(object_.fd);
  if (!pool_abandoned_) munmap(pool_, region_.bytes);
}

void Rig::Open() {
  const absl::Status status =
      backend_->Open(objects(), regions(), {.depth = depth_}, SteadyClock::Get().Now() + kPatience);
  INFO(std::string(status.message()));
  REQUIRE(status.ok());
}

IoOp Rig::Op(IoKind kind, uint64_t offset, uint32_t bytes, uint32_t i) {
  return {.offset = offset, .buffer = buffer(i), .tag = i, .bytes = bytes, .kind = kind};
}

std::vector<IoCompletion> Rig::Run(std::vector<IoOp> ops) {
  const Clock& clock = SteadyClock::Get();
  const Nanos deadline = clock.Now() + kPatience;
  std::vector<IoCompletion> ended;
  std::span<const IoOp> left(ops);
  std::array<IoCompletion, 16> out;
  while (ended.size() < ops.size()) {
    left = left.subspan(backend_->Submit(left, clock.Now()));
    const size_t n = backend_->Reap(out, clock.Now());
    ended.insert(ended.end(), out.begin(), out.begin() + static_cast<ptrdiff_t>(n));
    if (n == 0) backend_->WaitUntil(deadline);
    if (clock.Now() > deadline) FAIL("operations did not end in time");
  }
  return ended;
}

void Rig::SubmitAll(const std::vector<IoOp>& ops) {
  const Clock& clock = SteadyClock::Get();
  const Nanos deadline = clock.Now() + kPatience;
  std::array<IoCompletion, 1> out;
  size_t accepted = 0;
  while ((accepted = backend_->Submit(ops, clock.Now())) == 0) {
    if (clock.Now() > deadline) FAIL("nothing was accepted in time");
    REQUIRE(backend_->Reap(out, clock.Now()) == 0);
    backend_->WaitUntil(deadline);
  }
  REQUIRE(accepted == ops.size());
}

std::vector<IoCompletion> Rig::Collect(size_t count) {
  const Clock& clock = SteadyClock::Get();
  const Nanos deadline = clock.Now() + kPatience;
  std::vector<IoCompletion> ended;
  while (ended.size() < count) {
    std::array<IoCompletion, 1> out;
    if (backend_->Reap(out, clock.Now()) == 1) {
      ended.push_back(out[0]);
      continue;
    }
    backend_->WaitUntil(deadline);
    if (clock.Now() > deadline) FAIL("operations did not end in time");
  }
  return ended;
}

std::vector<Environment*> Environments() {
  static std::vector<std::unique_ptr<Environment>> all;
  if (all.empty()) {
    RequireRootOrSkip();
    const UringOptions plain{.defer_taskrun = false,
                             .taskrun_flags = false,
                             .registered_ring = false,
                             .registered_files = false,
                             .registered_buffers = false};
    all.push_back(std::make_unique<NullEnvironment>());
    all.push_back(std::make_unique<FileEnvironment>(FsKind::kExt4, 64 << 20, true));
    all.push_back(std::make_unique<FileEnvironment>(FsKind::kExt4, 64 << 20, false));
    all.push_back(std::make_unique<FileEnvironment>(FsKind::kExt4, 64 << 20, true, ", every feature off", plain));
    all.push_back(std::make_unique<FileEnvironment>(FsKind::kXfs, 320 << 20, true));
    all.push_back(std::make_unique<FileEnvironment>(FsKind::kTmpfs, 64 << 20, true));
    all.push_back(std::make_unique<FileEnvironment>(FsKind::kTmpfs, 64 << 20, false, ", cooperative task work",
                                                    UringOptions{.defer_taskrun = false}));
    all.push_back(std::make_unique<LoopEnvironment>());
    RequireTgtOrSkip();
    all.push_back(std::make_unique<IscsiEnvironment>());
  }
  std::vector<Environment*> list;
  list.reserve(all.size());
  for (const auto& environment : all) list.push_back(environment.get());
  return list;
}

}  // namespace muster::test
