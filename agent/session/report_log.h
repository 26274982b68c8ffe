#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "agent/engine/report_bound.h"
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

  // Beyond the bound the oldest interval reports that are not on their way become coarse: their histograms are taken
  // out and merged over the intervals of one part of the phase (warm-up, window, drain), counters and moments of each
  // interval stay, as with the report bound (engine/report_bound.h). Nothing is missing; the totals count them.
  // REPORT_LOG_FULL when even that is not enough: nothing is kept, no number is spent; the caller ends the phase.
  // `warmup`: first interval of the window.
  absl::Status Append(const PhaseKey& key, IntervalDelta delta, int64_t warmup = 0);
  absl::Status Append(const PhaseKey& key, HeldHistograms held);
  // Always taken: the end of a phase must be told even when the log is full. Sets totals.last_sequence to its own
  // number, the last of the phase.
  void AppendEnd(const PhaseKey& key, PhaseEnded ended);

  // The next report to send while the window is open; nullptr otherwise.
  std::shared_ptr<const Report> NextToSend();
  // Every report up to `sequence` is committed. One that lies before an earlier acknowledgement says nothing new: they
  // come over two streams. BAD_ACK when that was never sent; nothing changes.
  absl::Status Commit(uint64_t sequence);
  // Another link: of what was sent, reports after `received` have not arrived and are sent again. BAD_ACK as above.
  absl::Status Resume(uint64_t committed, uint64_t received);
  // Drops all that is kept; returns how many reports. Numbers are not used again.
  size_t Forget();

  bool empty() const { return kept_.empty(); }
  size_t size() const { return kept_.size(); }
  size_t unsent() const { return kept_.size() - sent_; }
  size_t bytes() const { return bytes_ + coarse_bytes_; }
  uint64_t last_sequence() const { return last_; }
  uint64_t committed() const { return committed_; }

 private:
  struct Entry {
    std::shared_ptr<const Report> report;
    size_t bytes;
  };
  absl::Status CheckRoom(const PhaseKey& key, size_t bytes, int64_t interval) const;
  void Keep(Report report, size_t bytes);
  void Keep(const PhaseKey& key, std::vector<HeldHistograms> due);
  void Enter(const PhaseKey& key, int64_t warmup);
  void Coarsen(size_t wanted);
  bool MakeCoarse(Entry& entry, std::vector<HeldHistograms>& due);

  enum class Part : uint8_t { kWarmup, kWindow, kDrain };
  // The phase that reports are appended of.
  struct Current {
    Current(PhaseKey k, int64_t w) : key(std::move(k)), warmup(w), coarse(0, w) {}
    PhaseKey key;
    int64_t warmup;
    ReportBound coarse;                              // histograms taken out, of `part`
    Part part = Part::kWarmup;                       // of the newest coarse report
    std::set<std::pair<uint32_t, Part>> handed_out;  // held histograms of these are in the log
    uint64_t coarse_deltas = 0;
  };
  static Part PartOf(const Current& current, int64_t interval, bool drain) {
    return drain ? Part::kDrain : interval < current.warmup ? Part::kWarmup : Part::kWindow;
  }

  const Limits limits_;
  std::deque<Entry> kept_;  // the first `sent_` of them have been sent
  size_t sent_ = 0;
  size_t sent_bytes_ = 0;
  size_t bytes_ = 0;
  std::optional<Current> current_;
  size_t coarse_bytes_ = 0;  // held in current_->coarse
  uint64_t last_ = 0;
  uint64_t committed_ = 0;
};

// Memory that a report takes, near enough for a bound.
size_t MemoryOf(const IntervalDelta& delta);
size_t MemoryOf(const HeldHistograms& held);

}  // namespace muster::agent
