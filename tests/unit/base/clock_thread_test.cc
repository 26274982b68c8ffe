#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <thread>

#include "common/base/clock.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/base/thread.h"

namespace muster {
namespace {

TEST_CASE("the steady clock never steps back and moves", "[clock]") {
  const SteadyClock& clock = SteadyClock::Get();
  const Nanos start = clock.Now();
  Nanos last = start;
  int64_t calls = 0;
  // 100 million calls are far more than it takes to see time move.
  while (last == start && calls < 100'000'000) {
    const Nanos now = clock.Now();
    REQUIRE(now >= last);
    last = now;
    ++calls;
  }
  CHECK(last > start);
}

TEST_CASE("the fake clock moves only when told", "[clock]") {
  FakeClock clock(5);
  CHECK(clock.Now() == 5);
  CHECK(clock.Now() == 5);
  clock.Advance(kSecond);
  CHECK(clock.Now() == kSecond + 5);
  clock.Set(7);
  CHECK(clock.Now() == 7);
}

TEST_CASE("never is later than everything and safe to add to", "[clock]") {
  CHECK(SteadyClock::Get().Now() < kNever);
  CHECK(kNever + kHour > kNever);
}

TEST_CASE("wall time is after the project began", "[clock]") {
  CHECK(WallMicros() > 1'700'000'000'000'000);
}

TEST_CASE("allowed CPUs are those of the affinity mask, ascending", "[thread]") {
  const std::vector<int> cpus = AllowedCpus();
  REQUIRE_FALSE(cpus.empty());
  CHECK(std::is_sorted(cpus.begin(), cpus.end()));
  cpu_set_t set;
  REQUIRE(sched_getaffinity(0, sizeof(set), &set) == 0);
  for (const int cpu : cpus) CHECK(CPU_ISSET(cpu, &set));
  CHECK(static_cast<int>(cpus.size()) == CPU_COUNT(&set));
}

TEST_CASE("a pinned thread may run on its CPU only", "[thread]") {
  absl::Status pinned;
  std::vector<int> left;
  const int cpu = AllowedCpus().back();
  std::thread([&] {
    pinned = PinThread(cpu);
    left = AllowedCpus();
  }).join();
  CHECK(pinned.ok());
  CHECK(left == std::vector<int>{cpu});
  CHECK(GetErrorInfo(PinThread(-1)).code == "SYS_EINVAL");
  CHECK_FALSE(PinThread(CPU_SETSIZE).ok());
}

TEST_CASE("thread names are cut to what the kernel keeps", "[thread]") {
  char name[16] = {};
  unsigned long slack = 0;
  std::thread([&] {
    SetThreadName("a-name-longer-than-the-limit");
    prctl(PR_GET_NAME, name, 0, 0, 0);
    SetTimerSlack(1);
    slack = static_cast<unsigned long>(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0));
  }).join();
  CHECK(std::string(name) == "a-name-longer-t");
  CHECK(slack == 1);
}

TEST_CASE("CPU time grows with work", "[thread]") {
  const int64_t thread_start = ThreadCpuNanos();
  const int64_t process_start = ProcessCpuNanos();
  volatile uint64_t work = 0;
  for (int64_t rounds = 0; ThreadCpuNanos() - thread_start < kMillisecond && rounds < 10'000'000; ++rounds) {
    for (int i = 0; i < 1'000; ++i) work = work + 1;
  }
  CHECK(ThreadCpuNanos() - thread_start >= kMillisecond);
  // The two clocks are read one after the other, and the process clock may lag by a scheduler tick's bookkeeping.
  CHECK(ProcessCpuNanos() - process_start >= kMillisecond / 2);
}

TEST_CASE("log level is what was set", "[logging]") {
  InitLogging("base_test", LogLevel::kError);
  CHECK(GetLogLevel() == LogLevel::kError);
  Log(LogLevel::kDebug, "below the level: {}", 1);
  InitLogging("base_test", LogLevel::kOff);
  CHECK(GetLogLevel() == LogLevel::kOff);
}

}  // namespace
}  // namespace muster
