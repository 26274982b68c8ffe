#pragma once
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace muster {

// CPUs this process may run on (sched_getaffinity, never nproc), ascending. Never empty.
std::vector<int> AllowedCpus();
// Names the calling thread (cut to 15 characters, the kernel's limit).
void SetThreadName(const std::string& name);
// Pins the calling thread to one CPU.
absl::Status PinThread(int cpu);
// Timer slack of the calling thread in nanoseconds (default 50 us, which is too coarse for pacing).
void SetTimerSlack(unsigned long nanos);
// CPU time used so far by the calling thread / by the whole process, in nanoseconds.
int64_t ThreadCpuNanos();
int64_t ProcessCpuNanos();

}  // namespace muster
