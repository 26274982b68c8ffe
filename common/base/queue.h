#pragma once
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "common/base/clock.h"

namespace muster {

// Bounded multi-producer multi-consumer queue for control paths. Thread-safe.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}
  // False when full or closed; never blocks. The item is untouched when refused.
  bool TryPush(T&& item) {
    {
      std::lock_guard lock(mutex_);
      if (closed_ || items_.size() >= capacity_) return false;
      items_.push_back(std::move(item));
    }
    ready_.notify_one();
    return true;
  }
  // Waits up to `timeout` for an item; nothing on time-out or when closed and drained.
  std::optional<T> Pop(Nanos timeout) {
    std::unique_lock lock(mutex_);
    ready_.wait_for(lock, std::chrono::nanoseconds(timeout), [&] { return closed_ || !items_.empty(); });
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    return item;
  }
  // No more pushes; waiting and later Pops drain what is left.
  void Close() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    ready_.notify_all();
  }
  size_t size() const {
    std::lock_guard lock(mutex_);
    return items_.size();
  }
  bool closed() const {
    std::lock_guard lock(mutex_);
    return closed_;
  }

 private:
  const size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<T> items_;
  bool closed_ = false;
};

// Single-producer single-consumer ring; wait-free, no read-modify-write. Capacity is rounded up to a power of two.
template <typename T>
class SpscRing {
 public:
  explicit SpscRing(size_t capacity) {
    size_t size = 1;
    while (size < capacity) size *= 2;
    slots_.resize(size);
  }
  bool Push(T item) {  // producer thread only; false when full
    const size_t head = head_.load(std::memory_order_relaxed);
    if (head - tail_.load(std::memory_order_acquire) == slots_.size()) return false;
    slots_[head & (slots_.size() - 1)] = std::move(item);
    head_.store(head + 1, std::memory_order_release);
    return true;
  }
  std::optional<T> Pop() {  // consumer thread only
    const size_t tail = tail_.load(std::memory_order_relaxed);
    if (tail == head_.load(std::memory_order_acquire)) return std::nullopt;
    std::optional<T> item(std::move(slots_[tail & (slots_.size() - 1)]));
    tail_.store(tail + 1, std::memory_order_release);
    return item;
  }
  bool empty() const { return tail_.load(std::memory_order_acquire) == head_.load(std::memory_order_acquire); }

 private:
  std::vector<T> slots_;
  alignas(64) std::atomic<size_t> head_{0};
  alignas(64) std::atomic<size_t> tail_{0};
};

}  // namespace muster
