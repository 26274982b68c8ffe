#pragma once
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "agent/backend/iscsi/resolve.h"

namespace muster::test {

// A name server for IscsiResolver that knows every name as 127.0.0.1 (none that begins with "no-") and answers when it
// is let. Its lookups may outlive it; they are let go then.
class LookUpGate {
 public:
  ~LookUpGate() { Release(); }
  IscsiResolver Resolver() {
    return IscsiResolver([state = state_](const std::string& host, int /*family*/, std::string& why) -> std::string {
      std::unique_lock lock(state->mutex);
      ++state->calls;
      state->changed.notify_all();
      state->changed.wait(lock, [&] { return !state->blocked; });
      if (host.rfind("no-", 0) != 0) return "127.0.0.1";
      why = "unknown";
      return {};
    });
  }
  void Block() { Set(true); }
  void Release() { Set(false); }
  uint32_t calls() const {
    const std::lock_guard lock(state_->mutex);
    return state_->calls;
  }
  // Until so many lookups have begun; false after a minute.
  bool AwaitCalls(uint32_t calls) {
    std::unique_lock lock(state_->mutex);
    return state_->changed.wait_for(lock, std::chrono::minutes(1), [&] { return state_->calls >= calls; });
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool blocked = false;
    uint32_t calls = 0;
  };
  void Set(bool blocked) {
    const std::lock_guard lock(state_->mutex);
    state_->blocked = blocked;
    state_->changed.notify_all();
  }
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace muster::test
