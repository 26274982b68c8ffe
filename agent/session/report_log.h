#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "absl/status/status.h"
#include "agent/session/messages.h"

namespace muster::agent {

// Reports from their making until the controller has committed them. Sequence numbers rise by one over the life of the
// process. Sending runs ahead of commitment by a window only, so a slow store shows here as a growing log and never
// blocks a worker. Pure; not thread-safe.
class ReportLog {
 public:
  struct Limits {
    size_t bytes = size_t{64} << 20;        // kept at most
    size_t window_bytes = size_t{8} << 20;  // sent and not committed; one report always may
    size_t window_reports = 64;
  };
  explicit ReportLog(Limits limits) : limits_(limits) {}
  ReportLog() : ReportLog(Limits{}) {}

  // REPORT_LOG_FULL when the bound would be passed: nothing is kept, no number is spent; the caller ends the phase.
  absl::Status Append(const PhaseKey& key, IntervalDelta delta);
  absl::Status Append(const PhaseKey& key, HeldHistograms held);
  // Always taken: the end of a phase must be told even when the log is full. Sets totals.last_sequence to its own
  // number, the last of the phase.
  void AppendEnd(const PhaseKey& key, PhaseEnded ended);

  // The next report to send while the window is open; nullptr otherwise.
  std::shared_ptr<const Report> NextToSend();
  // Every report up to `sequence` is committed. BAD_ACK when that was never sent or lies before an earlier
  // acknowledgement; nothing changes.
  absl::Status Commit(uint64_t sequence);
  // Drops all that is kept; returns how many reports. Numbers are not used again.
  size_t Forget();

  bool empty() const { return kept_.empty(); }
  size_t size() const { return kept_.size(); }
  size_t bytes() const { return bytes_; }
  uint64_t last_sequence() const { return last_; }
  uint64_t committed() const { return committed_; }

 private:
  struct Entry {
    std::shared_ptr<const Report> report;
    size_t bytes;
  };
  absl::Status CheckRoom(const PhaseKey& key, size_t bytes, int64_t interval) const;
  void Keep(Report report, size_t bytes);

  const Limits limits_;
  std::deque<Entry> kept_;  // the first `sent_` of them have been sent
  size_t sent_ = 0;
  size_t sent_bytes_ = 0;
  size_t bytes_ = 0;
  uint64_t last_ = 0;
  uint64_t committed_ = 0;
};

// Memory that a report takes, near enough for a bound.
size_t MemoryOf(const IntervalDelta& delta);
size_t MemoryOf(const HeldHistograms& held);

}  // namespace muster::agent
