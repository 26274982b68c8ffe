#pragma once
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "common/plan/plan.h"
#include "controller/store/run_store.h"

namespace muster {

// What a run file says about going on with its run. Steps are finished when they are VALID, INVALID, OVERLOADED, or
// SKIPPED by the plan itself; all others (FAILED, CANCELLED, INTERRUPTED, not run) are to be run.
struct ResumePoint {
  RunHeader header;                           // campaign text as it was read
  std::map<uint32_t, std::string> names;      // of all planned steps, by index
  std::map<uint32_t, uint32_t> next_attempt;  // of the steps that are not finished; others are not in it
  uint32_t finished = 0;
  bool any_invalid = false;  // among the finished
  std::string agents;        // that took part so far, for people
};

// Reads it. Blocks on the disk. Typed errors of RunReader, RUN_RUNNING (somebody writes it), RUN_COMPLETE (nothing is
// left to do).
absl::StatusOr<ResumePoint> ReadResumePoint(const std::string& path);

// The plan compiled anew from the campaign text, without what is finished. RESUME_MISMATCH when its steps are not those
// of the run file: another release compiles the same text otherwise.
absl::StatusOr<Plan> PlanToResume(const Plan& compiled, const ResumePoint& point);

}  // namespace muster
