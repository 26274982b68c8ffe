#pragma once
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

namespace muster {

// The one way out for every stream: a bounded queue with exactly one write in flight, because gRPC's callback API ends
// the process when a second write is started. Knows no gRPC: the stream gives two callbacks.
//
//   start(const Message&)  starts one write; the reference stays valid until OnWriteDone.
//   finish()               called once, after Finish or Abandon, when no write is in flight: nothing is started any
//                          more, so the stream may now call its own Finish / StartWritesDone / RemoveHold.
//
// Both are called without a lock held, on the thread that called Push, OnWriteDone, Finish or Abandon; they may call
// back into the queue. Because `finish` waits for a write that another thread is about to start, a stream that ends
// itself only in `finish` never starts a write on a dead reactor.
// Thread-safe; no method blocks. The owner keeps the queue alive until `finish` has been called.
// OnWriteDone says that a message has left, not that it has arrived.
template <typename Message>
class OutboundQueue {
 public:
  struct Limits {
    size_t messages = 1024;
    size_t bytes = size_t{32} << 20;
  };
  using Start = std::function<void(const Message&)>;
  using Done = std::function<void()>;
  using SizeOf = std::function<size_t(const Message&)>;

  OutboundQueue(Limits limits, SizeOf size_of, Start start, Done finish)
      : limits_(limits), size_of_(std::move(size_of)), start_(std::move(start)), finish_(std::move(finish)) {}
  OutboundQueue(const OutboundQueue&) = delete;
  OutboundQueue& operator=(const OutboundQueue&) = delete;

  // False when the message would exceed a limit (an empty queue takes one of any size) or after Finish, Abandon or a
  // failed write. The message in flight counts.
  bool Push(Message message) {
    const size_t size = size_of_(message);
    const Message* next = nullptr;
    {
      std::lock_guard lock(mutex_);
      if (closing_ || broken_) return false;
      const size_t held = queue_.size() + (in_flight_ ? 1 : 0);
      if (held >= limits_.messages || (held > 0 && bytes_ + size > limits_.bytes)) return false;
      queue_.push_back(Item{std::move(message), size});
      bytes_ += size;
      next = TakeNext();
    }
    if (next != nullptr) start_(*next);
    return true;
  }

  // The write in flight is over. `ok` false: the stream is broken; what is queued is dropped.
  void OnWriteDone(bool ok) {
    const Message* next = nullptr;
    bool finish = false;
    {
      std::lock_guard lock(mutex_);
      if (!in_flight_) return;
      bytes_ -= in_flight_->size;
      in_flight_.reset();
      if (!ok) {
        broken_ = true;
        DropQueued();
      }
      next = TakeNext();
      finish = TakeFinish();
    }
    if (next != nullptr) start_(*next);
    if (finish) finish_();
  }

  // No more pushes; `finish` is called once everything queued has been written. Idempotent.
  void Finish() { End(/*drop=*/false); }

  // The same, but what is queued is dropped: only the write in flight is waited for. May follow Finish.
  void Abandon() { End(/*drop=*/true); }

  // Queued and in flight.
  size_t size() const {
    std::lock_guard lock(mutex_);
    return queue_.size() + (in_flight_ ? 1 : 0);
  }
  size_t bytes() const {
    std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  struct Item {
    Message message;
    size_t size;
  };

  const Message* TakeNext() {
    if (in_flight_ || queue_.empty()) return nullptr;
    in_flight_.emplace(std::move(queue_.front()));
    queue_.pop_front();
    return &in_flight_->message;
  }
  bool TakeFinish() {
    if (!closing_ || finished_ || in_flight_ || !queue_.empty()) return false;
    finished_ = true;
    return true;
  }
  void DropQueued() {
    for (const Item& item : queue_) bytes_ -= item.size;
    queue_.clear();
  }
  void End(bool drop) {
    bool finish = false;
    {
      std::lock_guard lock(mutex_);
      closing_ = true;
      if (drop) DropQueued();
      finish = TakeFinish();
    }
    if (finish) finish_();
  }

  const Limits limits_;
  const SizeOf size_of_;
  const Start start_;
  const Done finish_;
  mutable std::mutex mutex_;
  std::deque<Item> queue_;
  std::optional<Item> in_flight_;  // its address does not change while the write runs
  size_t bytes_ = 0;
  bool closing_ = false;
  bool broken_ = false;
  bool finished_ = false;
};

}  // namespace muster
