#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "common/base/clock.h"

namespace muster::sim {

// What happens when, on one fake clock. Ties keep the order in which they were scheduled.
class SimQueue {
 public:
  Nanos now() const { return clock_.Now(); }
  void At(Nanos when, std::function<void()> what) {
    events_.emplace(std::pair{std::max(when, now()), next_++}, std::move(what));
  }
  void In(Nanos after, std::function<void()> what) { At(now() + after, std::move(what)); }
  Nanos Next() const { return events_.empty() ? kNever : events_.begin()->first.first; }
  // Runs the next event at its time.
  void RunOne() {
    auto node = events_.extract(events_.begin());
    clock_.Set(node.key().first);
    node.mapped()();
  }
  void AdvanceTo(Nanos when) { clock_.Set(std::max(when, now())); }

 private:
  FakeClock clock_{1'000 * kSecond};
  uint64_t next_ = 0;
  std::map<std::pair<Nanos, uint64_t>, std::function<void()>> events_;
};

}  // namespace muster::sim
