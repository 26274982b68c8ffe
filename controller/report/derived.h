#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/store/run_store.h"

// What text, JSON and CSV have in common: the run read once, and the figures that follow from the stored ones.
namespace muster {

struct LoadedRun {
  RunSummary summary;
  RunHeader header;
  std::vector<RunAgent> agents;
  std::vector<StepResult> steps;
  std::vector<std::pair<int64_t, std::string>> events;
};
absl::StatusOr<LoadedRun> LoadRun(RunReader& reader);

struct NamedQuantile {
  std::string_view name;  // "p99.9"
  double q;
};
inline constexpr std::array<NamedQuantile, 6> kQuantiles{
    {{"p50", 0.5}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}, {"p99.9", 0.999}, {"p99.99", 0.9999}}};

// Why a run ended as it did: what it wrote itself, and of one that nobody closed what was last committed.
std::string RunMessage(const RunSummary& run);
// Whether the run itself judged and closed the step; otherwise its figures are of what is there.
inline bool IsSealed(const StepResult& result) {
  return result.outcome != StepOutcome::kInterrupted;
}
// Whether the agents' totals are in the figures: without them nobody knows what was outstanding at the end.
bool HasTotals(const StepResult& result);

// Per second of the window; 0 for an empty window.
double PerSecond(uint64_t amount, Nanos window);

// "read" ... or "all" for the pooled row.
std::string_view KindLabel(const std::optional<OpKind>& kind);
// "16T16Q", or "poisson 10000/s fleet".
std::string LoadText(const Workload& workload);
std::string_view PacingName(Pacing pacing);
std::string_view RatePerName(RatePer per);
std::string_view PatternName(Pattern pattern);
std::string_view LayoutName(Layout layout);
std::string_view CheckOutcomeName(CheckOutcome outcome);  // "pass", "warn", "fail", "not evaluated"

// Of one initiator in one interval and kind: both parts of an open loop together.
struct InitiatorKind {
  OpKind kind = OpKind::kRead;
  uint64_t completed = 0, bytes = 0, failed = 0;
  Moments response;
  std::optional<Histogram> histogram;  // while its counters are kept
};
std::vector<InitiatorKind> KindsOfInitiator(const InitiatorDelta& initiator);

// All kinds of an interval's fleet, pooled.
KindFigures PooledInterval(const FleetInterval& interval);

// Control characters become '?': names and evidence may come from other hosts and end on a terminal.
std::string Printable(std::string_view text);
// Columns a text takes on a terminal (code points; no wide characters are used here).
size_t Columns(std::string_view utf8);

}  // namespace muster
