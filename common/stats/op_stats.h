#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/stats/histogram.h"

namespace muster {

enum class OpKind : uint8_t { kRead, kWrite, kFlush, kTrim };
inline constexpr int kOpKinds = 4;
std::string_view OpKindName(OpKind kind);  // "read", "write", "flush", "trim"

// How an operation ended, as far as statistics care. kOk is the only success.
enum class Outcome : uint8_t {
  kOk,
  kIo,           // EIO, medium or transport error
  kTimeout,      // own per-op timeout
  kNoSpace,      // ENOSPC, EDQUOT
  kShort,        // fewer bytes than asked
  kUnsupported,  // EOPNOTSUPP, EINVAL for alignment
  kAborted,      // ended by Abort
  kOther,
};
inline constexpr int kOutcomes = 8;
std::string_view OutcomeName(Outcome outcome);  // "ok", "io", "timeout", "no_space", ...

// Failed operations of one class: count, the native code last seen, and their own latency histogram.
struct ErrorDelta {
  Outcome outcome = Outcome::kOther;
  int32_t native_code = 0;  // errno, sense key ... of the first one in this delta
  uint64_t count = 0;
  EncodedHistogram response;
  bool operator==(const ErrorDelta&) const = default;
};

// One op kind of one initiator in one interval.
struct KindDelta {
  OpKind kind = OpKind::kRead;
  // Open loop: true for operations *due* inside the measurement window (latency figures are made of these, followed
  // to their end); closed loop: always false, membership is by interval.
  bool due_in_window = false;
  uint64_t completed = 0;  // equals response.moments.count
  uint64_t bytes = 0;
  EncodedHistogram response;
  // Empty (count 0) in closed loop while every wait was zero: then wait = 0 and service = response.
  EncodedHistogram wait;
  EncodedHistogram service;
  // Drain only: ages of operations that had not ended at the drain deadline.
  EncodedHistogram unfinished;
  std::vector<ErrorDelta> errors;
  bool operator==(const KindDelta&) const = default;
};

// Time integrals of depth over the interval, in operation-nanoseconds: mean depth = integral / interval length.
struct InitiatorDelta {
  uint32_t initiator = 0;        // fleet-wide index
  Uint128 offered_integral = 0;  // operations offered (due) and not done
  Uint128 wire_integral = 0;     // operations accepted by the backend and not done
  uint64_t outstanding = 0;      // accepted, not done, at the interval's end
  uint64_t waiting = 0;          // due, not accepted, at the interval's end
  Nanos oldest_age = 0;          // of those two, now - due
  Nanos time_full = 0;           // backend refused operations while some were offered
  std::vector<KindDelta> kinds;
  EncodedHistogram lateness;  // open loop: issued - due of operations that found a free slot when due
  // The report would have passed its bound: every histogram here has its moments and no counters. The counters come
  // later, merged (common/stats/held_histograms.h).
  bool held = false;
  bool operator==(const InitiatorDelta&) const = default;
};

// What one agent says of one interval. Built by the engine's reporter, merged by the controller.
struct IntervalDelta {
  int64_t interval = 0;     // index k in fleet time; with `drain` set: the one after the last
  bool drain = false;       // operations that ended after the last edge: in no rate
  bool gap = false;         // lost to a SIGSTOP or suspend: missing, carries no figures
  Nanos length = 0;         // by the agent's clock, first to last worker edge
  Nanos edge_error = 0;     // stated bound of the edge in fleet time
  Nanos stamp_error = 0;    // longest time one completion batch took from reap to stamp use
  Nanos poll_gap_max = 0;   // longest gap between two polls of a worker that was not waiting
  int64_t cpu_nanos = 0;    // process CPU used in the interval
  EncodedHistogram hiccup;  // how late a thread that sleeps 1 ms woke up
  std::vector<InitiatorDelta> initiators;
  bool operator==(const IntervalDelta&) const = default;
};

// Plain running counters of a worker, summed over workers: they pass through no recorder, codec or store.
struct KindTotals {
  uint64_t submitted = 0, completed = 0, failed = 0, aborted = 0, abandoned = 0;
  uint64_t bytes = 0;  // of completed
  bool operator==(const KindTotals&) const = default;
};
struct InitiatorTotals {
  uint32_t initiator = 0;
  std::array<KindTotals, kOpKinds> kinds;
  bool operator==(const InitiatorTotals&) const = default;
};
// An operation that was outstanding (or due and not issued) when the phase's last interval ended.
struct StraggleOp {
  uint32_t initiator = 0;
  OpKind kind = OpKind::kRead;
  Nanos age_at_end = 0;  // since due, at the window's end
  Nanos final_age = 0;   // when it ended, or at the drain deadline
  bool ended = false;
};
// What one connection of an initiator went through over a phase.
struct ConnectionTotals {
  uint32_t initiator = 0;
  uint32_t connection = 0;                                 // of the initiator, from 0
  Nanos down = 0;                                          // without a connection: no operation was issued
  std::vector<std::pair<std::string, uint64_t>> counters;  // by name; those of durations end in " ns"
  bool operator==(const ConnectionTotals&) const = default;
};

struct PhaseTotals {
  std::vector<InitiatorTotals> initiators;
  std::vector<ConnectionTotals> connections;  // targets reached over connections only; at most 4096
  uint64_t straggle_count = 0;                // all operations outstanding at the end
  std::vector<StraggleOp> stragglers;         // the oldest 256 of them
  uint64_t last_sequence = 0;                 // of the reports that belong to this phase
  uint64_t coarse_deltas = 0;                 // interval reports whose histograms were merged: the report log was full
  int64_t last_interval = -1;                 // of the phase
  bool overloaded = false;                    // oldest due operation waited longer than overload_after
  bool poisoned = false;                      // operations were abandoned and still hold buffers
};

}  // namespace muster
