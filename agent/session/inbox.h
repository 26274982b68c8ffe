#pragma once
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "common/base/clock.h"

namespace muster::agent {

// The session thread's one bounded queue. Ordinary events (messages, interval deltas) are refused beyond `capacity`;
// those that must not be lost and are few by construction (a phase's end, an answer of the work thread, a lost link)
// have `reserve` places more. Order is kept between both. Thread-safe; pushing never blocks.
template <typename Event>
class Inbox {
 public:
  Inbox(size_t capacity, size_t reserve) : capacity_(capacity), reserve_(reserve) {}

  bool Push(Event event) { return PushBelow(std::move(event), capacity_); }
  bool PushKept(Event event) { return PushBelow(std::move(event), capacity_ + reserve_); }

  // Waits until `timeout` has passed at most.
  std::optional<Event> Pop(Nanos timeout) {
    std::unique_lock lock(mutex_);
    const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout);
    if (!ready_.wait_until(lock, until, [&] { return !events_.empty(); })) return std::nullopt;
    std::optional<Event> event(std::move(events_.front()));
    events_.pop_front();
    return event;
  }

 private:
  bool PushBelow(Event event, size_t bound) {
    {
      std::lock_guard lock(mutex_);
      if (events_.size() >= bound) return false;
      events_.push_back(std::move(event));
    }
    ready_.notify_one();
    return true;
  }

  const size_t capacity_;
  const size_t reserve_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<Event> events_;
};

}  // namespace muster::agent
