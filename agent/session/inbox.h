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

// The session thread's one bounded queue, in order. What may come in any number (messages, interval deltas) has
// `ordinary` places; acknowledgements, as many as a window holds, have `answers` more; what must not be lost and is few
// by construction (a phase's end, an answer of the work thread, a lost link) has `kept` more still, so that neither can
// keep it out. Thread-safe; pushing never blocks and says false when there is no place.
template <typename Event>
class Inbox {
 public:
  Inbox(size_t ordinary, size_t answers, size_t kept)
      : ordinary_(ordinary), answers_(ordinary + answers), kept_(ordinary + answers + kept) {}

  bool Push(Event event) { return PushBelow(std::move(event), ordinary_); }
  bool PushAnswer(Event event) { return PushBelow(std::move(event), answers_); }
  bool PushKept(Event event) { return PushBelow(std::move(event), kept_); }

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

  const size_t ordinary_;
  const size_t answers_;
  const size_t kept_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<Event> events_;
};

}  // namespace muster::agent
