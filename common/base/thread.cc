#include "common/base/thread.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace muster {
namespace {

int64_t CpuNanos(clockid_t clock) {
  timespec ts;
  clock_gettime(clock, &ts);
  return static_cast<int64_t>(ts.tv_sec) * kSecond + ts.tv_nsec;
}

}  // namespace

std::vector<int> AllowedCpus() {
  std::vector<int> cpus;
  // Machines with more CPUs than a cpu_set_t holds make the call fail with EINVAL until the set is large enough.
  for (int size = CPU_SETSIZE; size <= 64 * CPU_SETSIZE; size *= 2) {
    cpu_set_t* set = CPU_ALLOC(size);
    const size_t bytes = CPU_ALLOC_SIZE(size);
    const int result = sched_getaffinity(0, bytes, set);
    if (result == 0) {
      for (int cpu = 0; cpu < size; ++cpu) {
        if (CPU_ISSET_S(cpu, bytes, set)) cpus.push_back(cpu);
      }
    }
    CPU_FREE(set);
    if (result == 0 || errno != EINVAL) break;
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

void SetThreadName(const std::string& name) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
}

absl::Status PinThread(int cpu) {
  if (cpu < 0 || cpu >= CPU_SETSIZE) return ErrnoError(EINVAL, "pin thread", "cpu " + std::to_string(cpu));
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (int err = pthread_setaffinity_np(pthread_self(), sizeof(set), &set); err != 0) {
    return ErrnoError(err, "pin thread", "cpu " + std::to_string(cpu));
  }
  return absl::OkStatus();
}

void SetTimerSlack(unsigned long nanos) {
  prctl(PR_SET_TIMERSLACK, nanos, 0, 0, 0);
}

int64_t ThreadCpuNanos() {
  return CpuNanos(CLOCK_THREAD_CPUTIME_ID);
}
int64_t ProcessCpuNanos() {
  return CpuNanos(CLOCK_PROCESS_CPUTIME_ID);
}

}  // namespace muster
