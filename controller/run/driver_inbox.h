#pragma once
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "controller/fleet/gateway.h"
#include "controller/run/run_events.h"

namespace muster {

// Where the run loop waits: agents' events from network threads, answers from the store thread. Thread-safe.
// Bounded: agents' events by `capacity` (and by their tickets long before), an agent's end always fits (one each), the
// store's answers by its operations under way.
class DriverInbox final : public AgentSink {
 public:
  struct Batch {
    std::vector<AgentEvent> agents;
    std::vector<RunEvent> store;
    std::vector<std::string> notes;
  };
  explicit DriverInbox(size_t capacity = 65'536) : capacity_(capacity) {}

  bool OnAgentEvent(AgentEvent event) override {
    {
      std::lock_guard lock(mutex_);
      if (waiting_.agents.size() >= capacity_ && !std::holds_alternative<AgentGone>(event.says)) return false;
      waiting_.agents.push_back(std::move(event));
    }
    ready_.notify_one();
    return true;
  }
  void OnFleetNote(const std::string& text) override {
    std::lock_guard lock(mutex_);
    if (waiting_.notes.size() < kMaxNotes) waiting_.notes.push_back(text);
  }
  void OnStore(RunEvent event) {
    {
      std::lock_guard lock(mutex_);
      waiting_.store.push_back(std::move(event));
    }
    ready_.notify_one();
  }
  // All that has come, in order of arrival within each kind; empty after `timeout`.
  Batch Take(Nanos timeout) {
    std::unique_lock lock(mutex_);
    ready_.wait_for(lock, std::chrono::nanoseconds(timeout),
                    [&] { return !waiting_.agents.empty() || !waiting_.store.empty(); });
    return std::exchange(waiting_, {});
  }

 private:
  static constexpr size_t kMaxNotes = 256;
  const size_t capacity_;
  std::mutex mutex_;
  std::condition_variable ready_;
  Batch waiting_;
};

}  // namespace muster
