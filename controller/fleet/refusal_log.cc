#include "controller/fleet/refusal_log.h"

#include <mutex>

#include "common/base/clock.h"
#include "common/base/logging.h"

namespace muster {
namespace {

class BoundedLog {
 public:
  void Warn(const std::string& text) {
    std::lock_guard lock(mutex_);
    const Nanos now = SteadyClock::Get().Now();
    if (now - second_ >= kSecond) {
      if (left_out_ > 0) Log(LogLevel::kWarning, "{} more refusals within a second", left_out_);
      second_ = now;
      said_ = left_out_ = 0;
    }
    if (said_ >= kMost) {
      ++left_out_;
      return;
    }
    ++said_;
    Log(LogLevel::kWarning, "{}", text);
  }

 private:
  static constexpr int kMost = 10;
  std::mutex mutex_;
  Nanos second_ = 0;
  int said_ = 0, left_out_ = 0;
};

}  // namespace

void LogRefusal(const std::string& text) {
  static auto* const log = new BoundedLog;  // gRPC's threads may outlive main
  log->Warn(text);
}

}  // namespace muster
