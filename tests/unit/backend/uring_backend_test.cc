#include "agent/backend/uring_backend.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "agent/backend/errno_outcome.h"
#include "common/base/status.h"

namespace muster {
namespace {

constexpr Nanos kPatience = 30 * kSecond;

// A backend over the reading end of a pipe: a file whose transfers end where we want.
class PipeRig {
 public:
  explicit PipeRig(const UringOptions& options = {}, uint32_t depth = 4) : backend_(MakeUringBackend(options)) {
    REQUIRE(pipe2(ends_.data(), O_CLOEXEC) == 0);
    const BackendObject object{.fd = ends_[0]};
    const BufferRegion region{pool_.data(), pool_.size()};
    const absl::Status status = backend_->Open({&object, 1}, {&region, 1}, {.depth = depth}, kNever);
    if (GetErrorInfo(status).code == "RING_SETUP") {
      std::printf("SKIPPED: %s\n", FormatError(status).c_str());
      std::exit(77);
    }
    REQUIRE(status.ok());
  }
  ~PipeRig() {
    backend_->Close();
    for (const int fd : ends_) {
      if (fd >= 0) close(fd);
    }
  }
  PipeRig(const PipeRig&) = delete;
  PipeRig& operator=(const PipeRig&) = delete;

  Backend& backend() { return *backend_; }
  std::string Parameter(std::string_view name) {
    for (const auto& [key, value] : backend_->Describe().parameters) {
      if (key == name) return value;
    }
    return "";
  }
  void Read(uint32_t bytes) {
    const IoOp op{.buffer = pool_.data(), .tag = 5, .bytes = bytes};
    REQUIRE(backend_->Submit({&op, 1}, 0) == 1);
  }
  void Write(size_t bytes) {
    const std::vector<char> text(bytes, 'm');
    REQUIRE(write(ends_[1], text.data(), bytes) == static_cast<ssize_t>(bytes));
  }
  void CloseWriter() {
    close(ends_[1]);
    ends_[1] = -1;
  }
  // Lets the backend notice what there is; true when the operation has ended.
  bool Ended(IoCompletion& completion) { return backend_->Reap({&completion, 1}, 0) == 1; }
  IoCompletion Collect() {
    IoCompletion completion;
    const Nanos deadline = SteadyClock::Get().Now() + kPatience;
    while (!Ended(completion)) {
      REQUIRE(SteadyClock::Get().Now() < deadline);
      backend_->WaitUntil(deadline);
    }
    return completion;
  }
  uint8_t at(size_t i) const { return pool_[i]; }

 private:
  std::unique_ptr<Backend> backend_;
  std::array<int, 2> ends_{-1, -1};
  std::vector<uint8_t> pool_ = std::vector<uint8_t>(65536);
};

// Runs `body` in a child process and returns what it returns; for limits that cannot be raised again.
int InChild(int (*body)()) {
  const pid_t pid = fork();
  REQUIRE(pid >= 0);
  if (pid == 0) _exit(body());
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST_CASE("uring: a transfer that ends short is continued with the rest") {
  for (const bool registered : {true, false}) {
    PipeRig rig({.registered_buffers = registered});
    rig.Read(10'000);
    IoCompletion completion;
    for (const size_t part : {3000u, 3000u, 3000u}) {
      rig.Write(part);
      // The part has to be taken by itself: it is when the pipe is empty again, which the next Reap brings about.
      REQUIRE_FALSE(rig.Ended(completion));
      REQUIRE(rig.backend().outstanding() == 1);
    }
    rig.Write(1000);
    completion = rig.Collect();
    CHECK(completion.outcome == IoOutcome::kOk);
    CHECK(completion.bytes == 10'000);
    CHECK(completion.tag == 5);
    CHECK(rig.at(0) == 'm');
    CHECK(rig.at(9'999) == 'm');
    CHECK(rig.at(10'000) == 0);
    CHECK(rig.backend().Close());
  }
}

TEST_CASE("uring: the end of the file makes what came before it a short transfer") {
  PipeRig rig;
  rig.Read(10'000);
  rig.Write(3000);
  rig.CloseWriter();
  const IoCompletion completion = rig.Collect();
  CHECK(completion.outcome == IoOutcome::kShort);
  CHECK(completion.bytes == 3000);
}

TEST_CASE("uring: an aborted operation is not continued") {
  PipeRig rig;
  rig.Read(10'000);
  rig.Write(3000);
  IoCompletion completion;
  if (rig.Ended(completion)) FAIL("ended before its length");
  rig.backend().Abort();
  completion = rig.Collect();
  CHECK(completion.outcome == IoOutcome::kAborted);
  CHECK(completion.bytes == 3000);
}

TEST_CASE("uring: every feature is used where the kernel has it, and each can be left out") {
  {
    PipeRig all;
    const BackendDescription d = all.backend().Describe();
    CHECK(d.registered_buffers);
    CHECK(d.registered_files);
    CHECK(all.Parameter("registered buffers") == "yes");
    CHECK(all.Parameter("ring entries") == "4");
  }
  struct Case {
    UringOptions options;
    const char* parameter;
    const char* value;
  };
  const Case cases[] = {
      {{.defer_taskrun = false}, "ring flags", "COOP_TASKRUN|TASKRUN_FLAG|SUBMIT_ALL"},
      {{.taskrun_flags = false}, "ring flags", "none"},
      {{.registered_ring = false}, "registered ring", "no: switched off"},
      {{.registered_files = false}, "registered files", "no: switched off"},
      {{.registered_buffers = false}, "registered buffers", "no: switched off"},
  };
  for (const Case& c : cases) {
    PipeRig rig(c.options);
    CHECK(rig.Parameter(c.parameter) == c.value);
    CHECK(rig.backend().Describe().registered_buffers == c.options.registered_buffers);
    CHECK(rig.backend().Describe().registered_files == c.options.registered_files);
    rig.Read(100);
    rig.Write(100);
    CHECK(rig.Collect().outcome == IoOutcome::kOk);
  }
}

TEST_CASE("uring: the depth is bounded by the largest ring") {
  PipeRig rig({}, 40'000);
  CHECK(rig.backend().Describe().max_outstanding == 32'768);
  PipeRig odd({}, 33);
  CHECK(odd.backend().Describe().max_outstanding == 33);
  CHECK(odd.Parameter("ring entries") == "64");
}

TEST_CASE("uring: Open refuses what cannot work") {
  const BackendObject closed{.fd = -1};
  CHECK(GetErrorInfo(MakeUringBackend()->Open({&closed, 1}, {}, {.depth = 1}, kNever)).code == "BAD_DESCRIPTOR");
  CHECK(GetErrorInfo(MakeUringBackend()->Open({}, {}, {.depth = 0}, kNever)).code == "BACKEND_DEPTH");
}

TEST_CASE("uring: a ring that cannot be made is a typed error") {
  CHECK(InChild([] {
          const rlimit none{0, 0};
          if (setrlimit(RLIMIT_NOFILE, &none) != 0) return 1;
          const absl::Status status = MakeUringBackend()->Open({}, {}, {.depth = 1}, kNever);
          return GetErrorInfo(status).code == "RING_SETUP" ? 0 : 2;
        }) == 0);
}

TEST_CASE("uring: without locked memory and with too many files the plain calls do the work") {
  { const PipeRig probe; }  // skips where there is no io_uring
  CHECK(InChild([] {
          constexpr size_t kPool = 1 << 20;
          std::array<int, 2> ends{};
          if (pipe2(ends.data(), O_CLOEXEC) != 0) return 1;
          void* pool = mmap(nullptr, kPool, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
          if (pool == MAP_FAILED) return 1;
          const std::vector<BackendObject> objects(200, BackendObject{.fd = ends[0]});
          const BufferRegion region{static_cast<uint8_t*>(pool), kPool};
          const rlimit files{100, 100};
          const rlimit locked{65536, 65536};
          if (setrlimit(RLIMIT_NOFILE, &files) != 0 || setrlimit(RLIMIT_MEMLOCK, &locked) != 0) return 2;
          if (geteuid() == 0 && setuid(65534) != 0) return 3;  // root may lock as much as it likes
          const auto backend = MakeUringBackend();
          if (!backend->Open(objects, {&region, 1}, {.depth = 2}, kNever).ok()) return 4;
          const BackendDescription d = backend->Describe();
          if (d.registered_buffers || d.registered_files) return 5;
          int notes = 0;
          for (const auto& [name, value] : d.parameters) {
            if (name == "registered files" && value == "no: EMFILE") ++notes;
            if (name == "registered buffers" && value == "no: ENOMEM") ++notes;
          }
          if (notes != 2) return 6;
          const IoOp op{.buffer = region.base, .tag = 1, .bytes = 4, .object = 199};
          if (write(ends[1], "disk", 4) != 4 || backend->Submit({&op, 1}, 0) != 1) return 7;
          IoCompletion completion;
          const Nanos deadline = SteadyClock::Get().Now() + kPatience;
          while (backend->Reap({&completion, 1}, 0) == 0) {
            if (SteadyClock::Get().Now() > deadline) return 8;
            backend->WaitUntil(deadline);
          }
          return completion.outcome == IoOutcome::kOk && completion.bytes == 4 && region.base[0] == 'd' ? 0 : 9;
        }) == 0);
}

TEST_CASE("errno: each class of failure") {
  CHECK(OutcomeOfErrno(EIO) == IoOutcome::kIo);
  CHECK(OutcomeOfErrno(ENODATA) == IoOutcome::kIo);
  CHECK(OutcomeOfErrno(ETIMEDOUT) == IoOutcome::kTimeout);
  CHECK(OutcomeOfErrno(ENOSPC) == IoOutcome::kNoSpace);
  CHECK(OutcomeOfErrno(EDQUOT) == IoOutcome::kNoSpace);
  CHECK(OutcomeOfErrno(EINVAL) == IoOutcome::kUnsupported);
  CHECK(OutcomeOfErrno(EOPNOTSUPP) == IoOutcome::kUnsupported);
  CHECK(OutcomeOfErrno(ECANCELED) == IoOutcome::kAborted);
  CHECK(OutcomeOfErrno(EBADF) == IoOutcome::kOther);
}

}  // namespace
}  // namespace muster
