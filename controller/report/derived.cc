#include "controller/report/derived.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "common/base/status.h"
#include "controller/report/cells.h"

namespace muster {

absl::StatusOr<LoadedRun> LoadRun(RunReader& reader) {
  LoadedRun run;
  MUSTER_ASSIGN_OR_RETURN(run.summary, reader.Summary());
  MUSTER_ASSIGN_OR_RETURN(run.header, reader.Header());
  MUSTER_ASSIGN_OR_RETURN(run.agents, reader.Agents());
  MUSTER_ASSIGN_OR_RETURN(run.steps, reader.Results());
  MUSTER_ASSIGN_OR_RETURN(run.events, reader.Events());
  return run;
}

std::string RunMessage(const RunSummary& run) {
  std::string out = run.message;
  auto add = [&](std::string_view text) { out += fmt::format("{}{}", out.empty() ? "" : "; ", text); };
  if (run.outcome == "interrupted") {
    add("the controller ended without closing the run");
    add(run.committed_wall_micros == 0
            ? "no report was committed"
            : fmt::format("last committed {} in {}", TimeCell(run.committed_wall_micros), run.committed_step));
  }
  if (!run.unsealed.empty()) add(fmt::format("unsealed: {}", fmt::join(run.unsealed, ", ")));
  return out;
}

bool HasTotals(const StepResult& result) {
  return IsSealed(result) || std::none_of(result.checks.begin(), result.checks.end(), [](const Check& check) {
           return check.name == "sums" && check.outcome == CheckOutcome::kNotEvaluated;
         });
}

double PerSecond(uint64_t amount, Nanos window) {
  if (window <= 0) return 0;
  return static_cast<double>(amount) / (static_cast<double>(window) / static_cast<double>(kSecond));
}

std::string_view KindLabel(const std::optional<OpKind>& kind) {
  return kind.has_value() ? OpKindName(*kind) : "all";
}

std::string_view PacingName(Pacing pacing) {
  switch (pacing) {
    case Pacing::kClosed:
      return "closed";
    case Pacing::kFixed:
      return "fixed";
    case Pacing::kPoisson:
      return "poisson";
  }
  return "closed";
}

std::string_view RatePerName(RatePer per) {
  switch (per) {
    case RatePer::kFleet:
      return "fleet";
    case RatePer::kInitiator:
      return "initiator";
    case RatePer::kStream:
      return "stream";
  }
  return "fleet";
}

std::string_view PatternName(Pattern pattern) {
  return pattern == Pattern::kRandom ? "random" : "sequential";
}

std::string_view LayoutName(Layout layout) {
  return layout == Layout::kShared ? "shared" : "partition";
}

std::string_view CheckOutcomeName(CheckOutcome outcome) {
  switch (outcome) {
    case CheckOutcome::kPass:
      return "pass";
    case CheckOutcome::kWarn:
      return "warn";
    case CheckOutcome::kFail:
      return "fail";
    case CheckOutcome::kNotEvaluated:
      return "not evaluated";
  }
  return "not evaluated";
}

std::string LoadText(const Workload& workload) {
  if (workload.pacing == Pacing::kClosed) return FormatLoad(workload.load);
  const char* whose = workload.rate_per == RatePer::kInitiator ? " an initiator"
                      : workload.rate_per == RatePer::kStream  ? " a stream"
                                                               : "";
  return fmt::format("{} {}/s{}", PacingName(workload.pacing), workload.rate, whose);
}

std::vector<InitiatorKind> KindsOfInitiator(const InitiatorDelta& initiator) {
  std::array<std::optional<InitiatorKind>, kOpKinds> by_kind;
  for (const KindDelta& delta : initiator.kinds) {
    auto& row = by_kind[static_cast<size_t>(delta.kind)];
    if (!row.has_value()) row = InitiatorKind{.kind = delta.kind, .histogram = Histogram()};
    row->completed += delta.completed;
    row->bytes += delta.bytes;
    for (const ErrorDelta& error : delta.errors) row->failed += error.count;
    // The sums were merged once without overflow, when the phase was aggregated.
    row->response.Merge(delta.response.moments).IgnoreError();
    const bool dropped = delta.response.moments.count != 0 && delta.response.counts.empty();
    if (row->histogram.has_value() && (dropped || !row->histogram->Merge(delta.response).ok())) row->histogram.reset();
  }
  std::vector<InitiatorKind> out;
  for (auto& row : by_kind) {
    if (row.has_value()) out.push_back(*std::move(row));
  }
  return out;
}

KindFigures PooledInterval(const FleetInterval& interval) {
  KindFigures pooled;
  for (const KindFigures& kind : interval.kinds) {
    pooled.completed += kind.completed;
    pooled.bytes += kind.bytes;
    pooled.failed += kind.failed;
    pooled.response.Merge(kind.response).IgnoreError();  // merged once already, see above
    pooled.response_max = std::max(pooled.response_max, kind.response_max);
  }
  return pooled;
}

std::string Printable(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) c = '?';
  }
  return out;
}

size_t Columns(std::string_view utf8) {
  size_t columns = 0;
  for (char c : utf8) columns += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
  return columns;
}

}  // namespace muster
