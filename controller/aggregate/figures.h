#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/plan/plan.h"
#include "common/stats/op_stats.h"

// Plain figures: what aggregation computes, verdicts judge, the store keeps and reports show.
namespace muster {

struct KindFigures {
  std::optional<OpKind> kind;  // none: all kinds pooled
  uint64_t completed = 0;
  uint64_t bytes = 0;
  uint64_t failed = 0;
  // response, wait and service always hold every operation the latency figures are made of (closed loop without
  // waits: wait is all zeros, service equals response); unfinished ones (open loop) are in response alone.
  Histogram response, wait, service;
  uint64_t response_max = 0;  // drained and unfinished operations included
};

struct GroupFigures {
  std::string name;                // "fleet" or the initiator's number
  std::string agent;               // empty for the fleet
  std::vector<KindFigures> kinds;  // pooled first, then those the workload has
  double asked_depth = 0, achieved_depth = 0, wire_depth = 0;
  double time_full_share = 0;  // of the window; of the fleet: mean over its initiators
  Histogram lateness;
};

struct ErrorFigures {
  OpKind kind = OpKind::kRead;
  Outcome outcome = Outcome::kOther;
  int32_t native_code = 0;
  uint64_t count = 0;
  Histogram response;
};

// What the link to an agent went through over a phase.
struct LinkTotals {
  std::string agent;
  uint64_t reconnects = 0;
  Nanos down = 0;              // without a link, of those
  uint64_t coarse_deltas = 0;  // PhaseTotals::coarse_deltas
};

// What the initiators of an agent that was lost had delivered together when the window was given up and begun anew.
struct LostFigures {
  uint32_t attempt = 0;    // of the phase
  uint32_t intervals = 0;  // of that window, delivered by everybody
  GroupFigures group;      // `agent` names it
};

struct StepFigures {
  Nanos interval = kSecond;
  uint32_t first_interval = 0;   // of the window
  uint32_t intervals_asked = 0;  // window as planned
  uint32_t intervals = 0;        // intervals of the window that every initiator delivered; rates are over these
  Nanos window() const { return interval * intervals; }
  GroupFigures fleet;
  std::vector<GroupFigures> initiators;
  std::vector<ErrorFigures> errors;  // whole phase, warm-up and drain included
  std::vector<std::string> missing;  // "agent local-2 interval 7 (gap)", at most 64, the rest counted
  uint64_t missing_count = 0;
  uint32_t initiators_asked = 0, initiators_heard = 0;
  std::vector<std::string> lost_agents;
  // on_agent_loss: continue. Agents lost in this step, which was then measured anew without them: the fleet's figures
  // are those of the initiators present in the whole window, `initiators_asked` less `left_out_initiators`.
  std::vector<std::string> left_out;
  uint32_t left_out_initiators = 0;
  uint32_t restarts = 0;          // windows begun anew
  std::vector<LostFigures> lost;  // in no other figure of the step
  uint64_t straggle_count = 0;
  std::vector<StraggleOp> stragglers;  // oldest 256 of the fleet
  Nanos straggle_oldest = 0;
  Nanos edge_error = 0, stamp_error = 0, poll_gap_max = 0;
  Histogram hiccup;
  double cpu_share = 0;  // CPUs used by all agents over the window
  bool overloaded = false, poisoned = false;
  // Report bound (64 KiB): parts of intervals of the window (one initiator, one interval) whose histograms
  // came merged over the window. `held_uncounted`: of them, beside `held`, those of intervals that do not count for
  // rates, though their latencies are in the merged histograms. `held_owed`: histograms that never came.
  uint64_t held = 0, held_uncounted = 0, held_owed = 0;
  std::vector<ConnectionTotals> connections;  // of the phase, by initiator and connection
  // Agents of the phase that are other than they should be: over TCP without TLS; of another build than the controller.
  std::vector<std::string> insecure_agents, other_builds;
  std::vector<LinkTotals> links;  // of the phase, by agent; empty in what was read from a run file
  absl::Status sums_error;        // SUMS_MISMATCH naming agent, initiator, kind and both values; OK when all add up
};

// One complete interval of the fleet, for live display and the store.
struct FleetInterval {
  int64_t interval = 0;
  bool in_window = false;
  std::array<KindFigures, kOpKinds> kinds;  // kinds not in the workload stay empty
  std::vector<InitiatorDelta> initiators;   // moments and counters; histograms dropped by the store after retention
  uint64_t outstanding = 0, waiting = 0;
  Nanos oldest_age = 0;
  // Histograms of some initiator come merged over the window: `kinds` have no latencies but response_max.
  bool held = false;
};

struct AgentLive {
  std::string agent;
  int64_t interval = -1;  // newest delivered
  double iops = 0, bytes_per_second = 0;
  uint64_t outstanding = 0;
  Nanos oldest_age = 0;
  double cpu = 0;
  bool silent = false;
};

// Of the responses that ended well in an interval.
struct LivePercentiles {
  Nanos p50 = 0, p99 = 0;
};

struct InitiatorLive {
  uint32_t initiator = 0;
  std::string agent;
  double iops = 0, bytes_per_second = 0;
  uint64_t outstanding = 0;
  std::optional<LivePercentiles> latency;  // none: nothing finished, or its histograms are held
};

// Of one interval, for who asks for it (PhaseAggregator::WantDetail): it costs decoding the interval once more.
struct LiveDetail {
  static constexpr size_t kInitiators = 4096;
  int64_t interval = 0;
  std::map<std::string, std::optional<LivePercentiles>> agents;  // none: as for initiators
  std::vector<InitiatorLive> initiators;                         // by number, at most kInitiators
  uint32_t left_out = 0;
};

struct LiveFigures {
  int64_t interval = 0;
  bool in_window = false, provisional = false;
  double iops = 0, bytes_per_second = 0;
  bool held = false;  // percentiles are absent (FleetInterval::held); max is there
  Nanos p50 = 0, p99 = 0, p999 = 0, max = 0;
  std::array<double, kOpKinds> iops_by_kind{};
  uint64_t outstanding = 0;
  uint64_t failed = 0;  // in the phase so far
  std::vector<AgentLive> agents;
  std::shared_ptr<const LiveDetail> detail;  // the newest, if it is wanted; may be older than `interval`
};

enum class CheckOutcome : uint8_t { kPass, kWarn, kFail, kNotEvaluated };
struct Check {
  std::string name;
  CheckOutcome outcome = CheckOutcome::kNotEvaluated;
  std::string evidence;
};

// Interrupted: never written by a run, but what a reader makes of a step whose reports are committed and which nobody
// has sealed.
enum class StepOutcome : uint8_t { kValid, kInvalid, kOverloaded, kCancelled, kFailed, kSkipped, kInterrupted };
std::string_view StepOutcomeName(StepOutcome outcome);  // "VALID" ...

// Everything kept of a step.
struct StepResult {
  Step step;
  StepOutcome outcome = StepOutcome::kFailed;
  std::string message;
  StepFigures figures;
  std::vector<Check> checks;
  std::vector<std::pair<std::string, std::string>> facts;  // ("local-1: ring flags", "...")
  Nanos start_skew = 0, clock_error = 0;
  uint64_t fill_bytes = 0;
  Nanos fill_time = 0;
};

}  // namespace muster
