#pragma once
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/base/status.h"

namespace muster {

// One side's half of a session over Control: what it has said and the other has not yet acknowledged, and how far it
// has heard the other. A session is named by the controller's epoch and the agent's instance and outlives the links
// that carry it: after a reconnect each side says again what the other has not seen, and drops by number what it has
// heard already, so every message arrives once and in order. Numbers count from 1 in each direction. Value type; pure;
// not thread-safe.
template <typename Message>
class ControlLog {
 public:
  struct Numbered {
    uint64_t seq = 0;
    Message message;
  };
  static constexpr size_t kKept = 1024;
  explicit ControlLog(size_t most = kKept) : most_(most) {}

  // Numbers the message and keeps it until acknowledged. CONTROL_LOG_FULL: nothing is kept, no number is spent.
  absl::StatusOr<uint64_t> Keep(Message message) {
    if (kept_.size() >= most_) {
      return MakeError(absl::StatusCode::kResourceExhausted,
                       {.code = "CONTROL_LOG_FULL",
                        .place = "Control",
                        .message = fmt::format("{} messages wait to be acknowledged", kept_.size()),
                        .next = "The other side hears nothing, or is flooded."});
    }
    kept_.push_back({++said_, std::move(message)});
    return said_;
  }
  // The other side has heard everything up to `seq`. CONTROL_ACK: it cannot have.
  absl::Status Acknowledge(uint64_t seq) {
    if (seq > said_) {
      return MakeError(absl::StatusCode::kInvalidArgument,
                       {.code = "CONTROL_ACK",
                        .place = "Control",
                        .message = fmt::format("message {} is acknowledged, {} was said last", seq, said_),
                        .next = "The other side runs another or a damaged version."});
    }
    while (!kept_.empty() && kept_.front().seq <= seq) kept_.pop_front();
    return absl::OkStatus();
  }
  // A numbered message has come. True: it is the next one. False: it was here before, drop it. CONTROL_GAP: one is
  // missing before it; this link cannot be relied on, the next one brings it again.
  absl::StatusOr<bool> Hear(uint64_t seq) {
    if (seq != 0 && seq <= heard_) return false;
    if (seq != heard_ + 1) {
      return MakeError(absl::StatusCode::kDataLoss,
                       {.code = "CONTROL_GAP",
                        .place = "Control",
                        .message = fmt::format("message {} came after message {}", seq, heard_),
                        .next = "It is said again over the next link."});
    }
    heard_ = seq;
    return true;
  }
  void Clear() {
    kept_.clear();
    said_ = heard_ = 0;
  }

  uint64_t heard() const { return heard_; }
  uint64_t said() const { return said_; }
  const std::deque<Numbered>& kept() const { return kept_; }

 private:
  size_t most_;
  uint64_t said_ = 0;
  uint64_t heard_ = 0;
  std::deque<Numbered> kept_;
};

}  // namespace muster
