#include "controller/cli/resume.h"

#include <fmt/format.h>

#include "common/base/status.h"
#include "common/wire/version.h"

namespace muster {

absl::StatusOr<ResumedCampaign> ReadToResume(const std::string& runs_dir, const std::string& name) {
  ResumedCampaign out;
  MUSTER_ASSIGN_OR_RETURN(out.path, ResolveRun(runs_dir, name));
  MUSTER_ASSIGN_OR_RETURN(out.point, ReadResumePoint(out.path));
  MUSTER_ASSIGN_OR_RETURN(out.campaign.loaded,
                          LoadCampaignText("campaign of run " + out.point.header.id, out.point.header.campaign_text));
  MUSTER_ASSIGN_OR_RETURN(out.campaign.plan, Compile(out.campaign.loaded));
  MUSTER_RETURN_IF_ERROR(ResolveSecrets(out.campaign.loaded, out.campaign.plan));
  MUSTER_ASSIGN_OR_RETURN(out.left, PlanToResume(out.campaign.plan, out.point));
  return out;
}

void Resume(const ResumedCampaign& resumed, RunOptions& options) {
  options.header = resumed.point.header;
  options.resume_path = resumed.path;
  options.resume_note =
      fmt::format("resumed by {}: {} of {} steps are finished, the next is {}; agents before: {}", BuildString(),
                  resumed.point.finished, resumed.point.names.size(), resumed.left.steps.front().name,
                  resumed.point.agents.empty() ? "none" : resumed.point.agents);
}

}  // namespace muster
