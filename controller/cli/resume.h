#pragma once
#include <string>

#include "controller/cli/session.h"
#include "controller/run/run_control.h"
#include "controller/store/resume.h"

namespace muster {

// A run to go on with: its campaign read and compiled again from the run file (secrets are resolved again, too), the
// part of its plan that is left, and what the file says.
struct ResumedCampaign {
  ReadCampaign campaign;  // its plan is the whole one
  Plan left;
  ResumePoint point;
  std::string path;  // of run.db
};

// `name`: a run id, a unique beginning of one, "last", or a path. Blocks on the disk. Typed errors of ResolveRun,
// ReadResumePoint, PlanToResume and of campaigns; those have "campaign of run ID" for a file name.
absl::StatusOr<ResumedCampaign> ReadToResume(const std::string& runs_dir, const std::string& name);

// Fills what a resumed run takes from its file instead of from the campaign at hand.
void Resume(const ResumedCampaign& resumed, RunOptions& options);

}  // namespace muster
