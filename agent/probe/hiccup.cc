#include "agent/probe/hiccup.h"

#include <time.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <thread>

#include "common/base/thread.h"

namespace muster {
namespace {

class ThreadHiccupMeter final : public HiccupMeter {
 public:
  explicit ThreadHiccupMeter(const Clock& clock) : clock_(clock), thread_([this] { Run(); }) {}
  ~ThreadHiccupMeter() override {
    stop_.store(true, std::memory_order_release);
    thread_.join();
  }
  ThreadHiccupMeter(const ThreadHiccupMeter&) = delete;
  ThreadHiccupMeter& operator=(const ThreadHiccupMeter&) = delete;

  Histogram Take() override {
    std::lock_guard lock(mutex_);
    Histogram taken = histogram_;
    histogram_.Clear();
    return taken;
  }

 private:
  void Run() {
    SetThreadName("muster-hiccup");
    SetTimerSlack(1);
    while (!stop_.load(std::memory_order_acquire)) {
      const Nanos before = clock_.Now();
      const timespec pause{.tv_sec = 0, .tv_nsec = kMillisecond};
      nanosleep(&pause, nullptr);  // a signal ends it early: then it was no hiccup
      RecordLateness(clock_.Now() - before - kMillisecond);
    }
  }

  void RecordLateness(Nanos late) {
    std::lock_guard lock(mutex_);
    RecordHiccup(histogram_, late);
  }

  const Clock& clock_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  Histogram histogram_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace

void RecordHiccup(Histogram& histogram, Nanos late) {
  histogram.Record(late > 0 ? static_cast<uint64_t>(late) : 0);
  for (Nanos missed = late - kMillisecond; missed >= kMillisecond; missed -= kMillisecond) {
    histogram.Record(static_cast<uint64_t>(missed));
  }
}

std::unique_ptr<HiccupMeter> HiccupMeter::Start(const Clock& clock) {
  return std::make_unique<ThreadHiccupMeter>(clock);
}

}  // namespace muster
