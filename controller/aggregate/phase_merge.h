#pragma once
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "controller/aggregate/aggregator.h"
#include "controller/aggregate/decoded_delta.h"
#include "controller/aggregate/held_ledger.h"
#include "controller/aggregate/latencies.h"
#include "controller/aggregate/live.h"
#include "controller/aggregate/live_detail.h"
#include "controller/aggregate/sums.h"
#include "controller/aggregate/window.h"

// Inside of PhaseAggregator: merging (phase_merge.cc) and the end of a phase (phase_seal.cc).
namespace muster {

inline constexpr int64_t kMaxInterval = 10'000'000;  // as the message rule has it

struct PhaseAgent {
  std::vector<uint32_t> carries;
  std::vector<bool> delivered;  // by interval
  bool drained = false, lost = false;
  uint64_t outstanding = 0;  // at the end of the newest interval that was no gap
  std::map<int64_t, uint64_t>
      gaps;  // operations that were out when the process stopped: their latency contains the gap
  std::optional<PhaseTotals> totals;

  bool Delivered(int64_t interval) const {
    return interval >= 0 && static_cast<size_t>(interval) < delivered.size() && delivered[interval];
  }
};

// An interval that somebody has delivered and that is not closed yet.
struct PendingInterval {
  std::array<Latencies, kOpKinds> latencies;  // fleet, all operations done in the interval
  std::array<KindCounters, kOpKinds> counters;
  std::array<bool, kOpKinds> seen{};
  Histogram lateness, hiccup;
  Uint128 offered_integral = 0, wire_integral = 0;
  Nanos time_full = 0;
  uint64_t outstanding = 0, waiting = 0;
  Nanos oldest_age = 0;
  uint64_t held = 0;                            // initiators whose histograms come later
  std::map<std::string, IntervalDelta> deltas;  // by agent, as they came
};

struct PhaseAggregator::Impl {
  explicit Impl(PhaseShape s)
      : shape(std::move(s)), open_loop(shape.workload.pacing != Pacing::kClosed), ledger(shape.warmup_intervals) {
    has = KindsOf(shape.workload);
    for (const auto& [id, initiators] : shape.agents) {
      agents[id].carries = initiators;
      live.AddAgent(id, !initiators.empty());
      for (uint32_t initiator : initiators) carrier[initiator] = id;
    }
  }

  bool InWindow(int64_t k) const {
    return k <= last && k >= shape.warmup_intervals && k < int64_t{shape.warmup_intervals} + shape.window_intervals;
  }
  absl::Status CheckDelivery(const std::string& id, const IntervalDelta& delta) const;
  void MergePending(const std::string& id, const IntervalDelta& delta, DecodedDelta& decoded);
  void MergeOpenLoop(const IntervalDelta& delta, const DecodedDelta& decoded);
  void MergeDrain(const IntervalDelta& delta, const DecodedDelta& decoded);
  void MergeErrors(const IntervalDelta& delta);
  ErrorFigures& ErrorRow(OpKind kind, Outcome outcome, int32_t native_code);
  void MergeHeld(const HeldHistograms& held);
  void MergeHeldWindow();
  // The largest response is known of every interval, with histograms or without.
  static void NoteLargest(const IntervalDelta& delta, FleetInterval& interval);

  // True when no agent owes the interval. What a lost one owes may still come until the phase is sealed.
  bool Closable(const PendingInterval& interval) const;
  void CloseReady();
  void Close(int64_t k, PendingInterval interval);
  // Why an agent's part of the interval is not in it; empty when all of it is.
  std::string Absence(const PhaseAgent& agent, const IntervalDelta* delta) const;
  void NoteMissing(int64_t k, const std::map<std::string, IntervalDelta>& deltas);
  void MergeWindow(const PendingInterval& interval);
  // Makes `detail` anew where it is wanted and due.
  void NoteDetail(int64_t k, const std::map<std::string, IntervalDelta>& deltas);

  void CheckSums();
  void CompareWithFleet();
  void Must(const absl::Status& status) {
    if (!status.ok()) sums.Note(status);
  }

  const PhaseShape shape;
  const bool open_loop;
  std::array<bool, kOpKinds> has{};
  std::map<std::string, PhaseAgent, std::less<>> agents;
  std::map<uint32_t, std::string> carrier;
  std::map<int64_t, PendingInterval> pending;
  int64_t next = 0;  // first interval that is not closed
  std::vector<FleetInterval> complete;
  LiveView live;
  bool detail_wanted = false;
  std::shared_ptr<const LiveDetail> detail;  // the newest
  Headroom headroom;
  SumsCheck sums;
  HeldLedger ledger;
  std::vector<HeldHistograms> held_window;  // closed loop: of the window, merged when its end is known
  GroupWindow fleet;
  std::map<uint32_t, GroupWindow> initiators;
  std::set<uint32_t> heard;
  std::map<std::tuple<OpKind, Outcome, int32_t>, ErrorFigures> errors;
  StepFigures figures;  // filled while intervals close
  int64_t cpu_nanos = 0;
  int64_t last = kMaxInterval;  // of the phase, once sealed
  bool sealed = false;
};

}  // namespace muster
