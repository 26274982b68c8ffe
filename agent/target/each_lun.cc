#include "agent/target/each_lun.h"

#include <algorithm>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "agent/backend/iscsi/errors.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/thread.h"
#include "fmt/format.h"

namespace muster {

absl::Status ForEachLun(std::span<const IscsiConnectionSpec> specs, const char* doing, Nanos deadline,
                        const std::function<absl::Status(size_t)>& work) {
  std::mutex mutex;
  size_t next = 0;
  size_t done = 0;
  size_t failed = specs.size();
  bool late = false;
  absl::Status error;
  const auto run = [&] {
    std::unique_lock lock(mutex);
    while (next < specs.size() && error.ok()) {
      const size_t i = next++;
      lock.unlock();
      absl::Status status = work(i);
      const bool over = SteadyClock::Get().Now() >= deadline;
      lock.lock();
      if (status.ok()) ++done;
      if (status.ok() || i >= failed) continue;
      failed = i;
      error = std::move(status);
      late = over;
    }
  };
  std::vector<std::thread> threads;
  try {
    while (threads.size() + 1 < std::min(specs.size(), kLunsAtOnce)) {
      threads.emplace_back([&] {
        SetThreadName("muster-lun");
        run();
      });
    }
  } catch (const std::system_error&) {  // fewer do it as well, this one alone if need be
  }
  run();
  for (std::thread& thread : threads) thread.join();
  if (error.ok() || !late) return error;
  const IscsiConnectionSpec& spec = specs[failed];
  return MakeError(absl::StatusCode::kDeadlineExceeded,
                   {"ISCSI_TOO_SLOW", PlaceOf(spec, spec.luns.front()),
                    fmt::format("the time was over while {} ({} of {} LUNs were done): {}", doing, done, specs.size(),
                                GetErrorInfo(error).message),
                    "Look why the target is slow, or name fewer LUNs."});
}

}  // namespace muster
