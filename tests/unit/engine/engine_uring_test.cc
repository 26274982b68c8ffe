// The engine over io_uring on a real file: what a fill leaves there, and what a full device does.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "agent/engine/engine.h"
#include "common/base/status.h"

namespace muster {
namespace {

constexpr Nanos kPatience = 60 * kSecond;

class Listener final : public EngineListener {
 public:
  void OnFirstIo(Nanos, Nanos) override {}
  void OnInterval(IntervalDelta delta) override {
    if (delta.interval == 0 && !delta.drain) first = delta;
    last = std::move(delta);
  }
  void OnHeld(HeldHistograms) override { FAIL("a report of a few operations passed its bound"); }
  void OnProgress(uint64_t bytes_done, uint64_t) override { done = bytes_done; }
  void OnEnded(PhaseTotals t, absl::Status s) override {
    std::lock_guard lock(mutex_);
    totals = std::move(t);
    status = std::move(s);
    ended_ = true;
    changed_.notify_all();
  }
  bool AwaitEnd() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::nanoseconds(kPatience), [&] { return ended_; });
  }
  IntervalDelta first, last;
  uint64_t done = 0;
  PhaseTotals totals;
  absl::Status status;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
};

// A file of its own, gone at the end.
class TemporaryFile {
 public:
  explicit TemporaryFile(uint64_t size) {
    const char* dir = std::getenv("TMPDIR");
    std::string path = std::string(dir != nullptr ? dir : "/tmp") + "/muster-engine-XXXXXX";
    fd_ = mkstemp(path.data());
    REQUIRE(fd_ >= 0);
    unlink(path.c_str());
    REQUIRE(ftruncate(fd_, static_cast<off_t>(size)) == 0);
  }
  ~TemporaryFile() { close(fd_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  int fd() const { return fd_; }
  std::string Read(uint64_t bytes) const {
    std::string content(bytes, 0);
    REQUIRE(pread(fd_, content.data(), bytes, 0) == static_cast<ssize_t>(bytes));
    return content;
  }

 private:
  int fd_ = -1;
};

// False when the kernel has no io_uring for us: said on the console, and the case passes without a claim.
bool RunPhase(const PhaseSpec& spec, int fd, uint64_t size, Listener& listener) {
  const EngineTarget target{.target = {.name = "t", .kind = FileTarget{.dir = "/", .direct = false}},
                            .objects = {{.fd = fd, .size = size}}};
  const FleetTime fleet;
  const LeaseEnd lease{kNever};
  const Clock& clock = SteadyClock::Get();
  auto engine = Engine::Prepare(spec, target, {.cpus = {0, 0}}, clock, fleet, lease, listener, clock.Now() + kPatience);
  if (!engine.ok() && GetErrorInfo(engine.status()).code == "RING_SETUP") {
    WARN("io_uring is not available: " << engine.status().message());
    return false;
  }
  REQUIRE(engine.ok());
  (*engine)->Start(clock.Now() + 10 * kMillisecond);
  REQUIRE(listener.AwaitEnd());
  CHECK((*engine)->Join(clock.Now() + kPatience));
  return true;
}

PhaseSpec FillPhase(uint64_t size) {
  PhaseSpec spec;
  spec.key = {.run = "r", .step = 0, .phase = PhaseKind::kFill, .attempt = 0};
  spec.target = "t";
  spec.interval = 50 * kMillisecond;
  spec.objects = {{.slot = 0, .name = "data", .size = size}};
  spec.work = FillSpec{
      .block = 1 << 16, .depth = 8, .passes = 1, .seed = 1, .extents = {{.slot = 0, .offset = 0, .length = size}}};
  return spec;
}

TEST_CASE("a fill leaves every block written, none like another, and no step repeats another's content") {
  const uint64_t size = 37 * (1 << 16) + 3 * 4096;  // the last block is shorter
  TemporaryFile file(size + 4096);
  std::set<std::string> blocks;
  size_t count = 0;
  for (uint32_t step = 0; step < 2; ++step) {
    PhaseSpec spec = FillPhase(size);
    spec.key.step = step;
    Listener listener;
    if (!RunPhase(spec, file.fd(), size, listener)) return;
    CHECK(listener.status.ok());
    CHECK(listener.done == size);
    const std::string content = file.Read(size + 4096);
    for (uint64_t at = 0; at < size; at += 4096, ++count) blocks.insert(content.substr(at, 4096));
    CHECK(content.substr(size) == std::string(4096, 0));  // nothing beyond the extent
  }
  CHECK(blocks.size() == count);
  CHECK_FALSE(blocks.contains(std::string(4096, 0)));
}

TEST_CASE("a measure phase over the ring adds up, writes and flushes included") {
  const uint64_t size = 1 << 22;
  TemporaryFile file(size);
  PhaseSpec spec = FillPhase(size);
  spec.key.phase = PhaseKind::kMeasure;
  spec.initiators = {0};
  spec.initiator_count = spec.initiator_count_max = 1;
  Workload work;
  work.load = {.streams = 2, .depth = 8};
  work.read = 0.5;
  work.flush_every = 100;
  work.size = size;
  spec.work = MeasureSpec{.workload = work, .warmup_intervals = 0, .window_intervals = 4};
  Listener listener;
  if (!RunPhase(spec, file.fd(), size, listener)) return;
  CHECK(listener.status.ok());
  for (const OpKind kind : {OpKind::kRead, OpKind::kWrite, OpKind::kFlush}) {
    const KindTotals& totals = listener.totals.initiators.at(0).kinds[static_cast<int>(kind)];
    CHECK(totals.completed > 0);
    CHECK(totals.submitted == totals.completed);
  }
}

// Real clocks: bounds only. What the stamps are is asserted exactly on the fake clock (worker_loop_test); this is
// against falsifying by a factor, on the path a user runs.
TEST_CASE("one operation outstanding measures what a loop of one read at a time measures") {
  const uint64_t size = 8 << 20;
  TemporaryFile file(size);
  Listener filled;
  if (!RunPhase(FillPhase(size), file.fd(), size, filled)) return;
  REQUIRE(filled.status.ok());
  PhaseSpec spec = FillPhase(size);
  spec.key.phase = PhaseKind::kMeasure;
  spec.initiators = {0};
  spec.initiator_count = spec.initiator_count_max = 1;
  spec.interval = 300 * kMillisecond;
  Workload work;
  work.load = {.streams = 1, .depth = 1};
  work.size = size;
  work.block = 1 << 20;  // the copy is nearly all of it, so that both sides agree on any machine
  spec.work = MeasureSpec{.workload = work, .warmup_intervals = 0, .window_intervals = 1};
  Listener measured;
  REQUIRE(RunPhase(spec, file.fd(), size, measured));
  REQUIRE(measured.status.ok());
  const IntervalDelta first = measured.first;
  REQUIRE(!first.initiators.empty());
  const auto& kinds = first.initiators[0].kinds;
  REQUIRE(!kinds.empty());
  const KindDelta& read = kinds[0];
  REQUIRE(read.completed > 20);
  CHECK(first.stamp_error > 0);
  CHECK(static_cast<uint64_t>(first.stamp_error) <= read.response.moments.max);

  std::vector<char> buffer(work.block);
  const Clock& clock = SteadyClock::Get();
  std::vector<Nanos> plain;
  for (uint64_t i = 0; i < 200; ++i) {
    const Nanos before = clock.Now();
    // The system call itself: sanitizers put work of their own around the library's.
    REQUIRE(syscall(SYS_pread64, file.fd(), buffer.data(), work.block, static_cast<off_t>(i * work.block % size)) ==
            static_cast<long>(work.block));
    plain.push_back(clock.Now() - before);
  }
  std::nth_element(plain.begin(), plain.begin() + 100, plain.end());
  const auto mean = static_cast<double>(read.response.moments.sum) / static_cast<double>(read.response.moments.count);
  CHECK(mean > 0.2 * static_cast<double>(plain[100]));
  // Medians: the mean has the stops of the machine in it, which come to one side or the other.
  const auto response = Histogram::Decode(read.response);
  REQUIRE(response.ok());
  CHECK(static_cast<double>(response->At(0.5).value) < 5 * static_cast<double>(plain[100]));
}

TEST_CASE("a full device ends a fill with NO_SPACE and the place") {
  const int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
  if (fd < 0) {
    WARN("no /dev/full");
    return;
  }
  Listener listener;
  if (RunPhase(FillPhase(1 << 20), fd, 1 << 20, listener)) {
    const ErrorInfo error = GetErrorInfo(listener.status);
    CHECK(error.code == "NO_SPACE");
    CHECK(error.place.starts_with("target t data offset "));  // which one ends first is the kernel's choice
    CHECK(listener.totals.initiators.at(0).kinds[static_cast<int>(OpKind::kWrite)].failed > 0);
  }
  close(fd);
}

}  // namespace
}  // namespace muster
