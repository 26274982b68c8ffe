#include "controller/store/resume.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/status.h"
#include "controller/store/sqlite.h"
#include "controller/store/unsealed.h"

namespace muster {
namespace {

bool Finished(const StepResult& result) {
  switch (result.outcome) {
    case StepOutcome::kValid:
    case StepOutcome::kInvalid:
    case StepOutcome::kOverloaded:
      return true;
    case StepOutcome::kSkipped:
      return !result.step.skip_reason.empty();
    case StepOutcome::kCancelled:
    case StepOutcome::kFailed:
    case StepOutcome::kInterrupted:
      return false;
  }
  return false;
}

// The highest attempt that left anything of the step, plus one.
absl::StatusOr<uint32_t> NextAttempt(Database& db, uint32_t step) {
  int64_t next = 0;
  for (const char* table : {"raw", "intervals", "results", "sealed"}) {
    MUSTER_ASSIGN_OR_RETURN(
        Statement highest,
        db.Prepare(fmt::format("SELECT coalesce(max(attempt), -1) + 1 FROM {} WHERE step=?1", table)));
    MUSTER_ASSIGN_OR_RETURN(const bool row, highest.Bind(1, step).Step());
    if (row) next = std::max(next, highest.Int(0));
  }
  return static_cast<uint32_t>(next);
}

}  // namespace

absl::StatusOr<ResumePoint> ReadResumePoint(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(auto reader, RunReader::Open(path));
  MUSTER_ASSIGN_OR_RETURN(const RunSummary summary, reader->Summary());
  if (summary.outcome == "running") {
    return MakeError(absl::StatusCode::kFailedPrecondition, {.code = "RUN_RUNNING",
                                                             .place = path,
                                                             .message = "the run is running",
                                                             .next = "Wait for its end, or cancel it."});
  }
  ResumePoint out;
  MUSTER_ASSIGN_OR_RETURN(out.header, reader->Header());
  MUSTER_ASSIGN_OR_RETURN(const auto results, reader->Results());
  MUSTER_ASSIGN_OR_RETURN(const auto agents, reader->Agents());
  for (const RunAgent& agent : agents) {
    out.agents += fmt::format("{}{} on {} ({})", out.agents.empty() ? "" : ", ", agent.id, agent.hostname, agent.build);
  }
  MUSTER_ASSIGN_OR_RETURN(auto db, Database::Open(path, Database::Mode::kRead));
  MUSTER_ASSIGN_OR_RETURN(const Plan plan, ReadPlanSteps(*db));
  for (const Step& step : plan.steps) {
    out.names[step.index] = step.name;
    const auto result =
        std::find_if(results.begin(), results.end(), [&](const StepResult& r) { return r.step.index == step.index; });
    if (result != results.end() && Finished(*result)) {
      ++out.finished;
      const bool good = result->outcome == StepOutcome::kValid || result->outcome == StepOutcome::kSkipped;
      out.any_invalid |= !good;
      continue;
    }
    MUSTER_ASSIGN_OR_RETURN(out.next_attempt[step.index], NextAttempt(*db, step.index));
  }
  if (out.next_attempt.empty()) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     {.code = "RUN_COMPLETE",
                      .place = path,
                      .message = fmt::format("all {} steps of the run are finished", out.finished),
                      .next = "Run the campaign again for another result."});
  }
  return out;
}

absl::StatusOr<Plan> PlanToResume(const Plan& compiled, const ResumePoint& point) {
  const bool same = compiled.steps.size() == point.names.size() &&
                    std::all_of(compiled.steps.begin(), compiled.steps.end(), [&](const Step& step) {
                      const auto found = point.names.find(step.index);
                      return found != point.names.end() && found->second == step.name;
                    });
  if (!same) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition,
        {.code = "RESUME_MISMATCH",
         .place = "run " + point.header.id,
         .message = fmt::format("this release makes other steps of its campaign than {} did", point.header.build),
         .next = "Resume it with the release that began it, or run the campaign anew."});
  }
  Plan out = compiled;
  std::erase_if(out.steps, [&](const Step& step) { return !point.next_attempt.contains(step.index); });
  for (Step& step : out.steps) step.first_attempt = point.next_attempt.at(step.index);
  return out;
}

}  // namespace muster
