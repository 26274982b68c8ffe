#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "common/base/status.h"
#include "common/base/units.h"
#include "controller/cli/json_events.h"
#include "controller/cli/output.h"
#include "controller/cli/session.h"
#include "controller/cli/verbs.h"

namespace muster {
namespace {

void PrintViews(const std::vector<TargetView>& views) {
  if (views.empty()) return;
  Out("\ntargets, looked at read only:\n");
  for (const TargetView& v : views) {
    Out("  {} on {} ({})\n", v.target, v.host, v.agent);
    if (!v.place.empty()) {
      Out("    place:  {}{}{}\n", v.place, v.identity.empty() ? "" : ", id " + v.identity,
          v.size > 0 ? fmt::format(", {} B", v.size) : "");
    }
    if (!v.found.empty()) Out("    found:  {}\n", v.found);
    if (!v.would_write.empty()) Out("    writes: {}\n", v.would_write);
    for (const std::string& note : v.notes) Out("    note:   {}\n", note);
    if (v.refusal.ok()) {
      if (!v.verdict.empty()) Out("    guard:  {}\n", v.verdict);
    } else {
      Out("    guard:  REFUSED {}\n", FormatError(v.refusal));
    }
  }
}

}  // namespace

int PlanVerb(const PlanVerbOptions& options, const std::atomic<int>& cancel) {
  auto campaign = ReadAndCompile(options.campaign);
  if (!campaign.ok()) return Fail(campaign.status(), options.json, kExitUsage);
  Plan& plan = campaign->plan;
  if (const absl::Status fits = CheckBuffers(plan, 1, DefaultBufferBound()); !fits.ok()) {
    plan.warnings.push_back(FormatError(fits));
  }
  std::vector<TargetView> views;
  absl::Status inspected;
  if (options.inspect) {
    auto session = StartLocalSession(plan, 1, 10 * kSecond, options.log_level, cancel);
    if (session.ok()) {
      auto found = (*session)->server->Inspect(plan, 60 * kSecond);
      if (found.ok()) {
        views = *std::move(found);
        PlaceRefusals(campaign->loaded, views);
      } else {
        inspected = found.status();
      }
    } else {
      inspected = session.status();
    }
  }
  if (options.json) {
    Out("{}\n", JsonPlan(plan, views));
  } else {
    Out("{}", FormatPlan(plan));
    Out("run file: about {}\n", FormatBytesHuman(static_cast<double>(EstimateStoreBytes(plan))));
    PrintViews(views);
    FlushOut();
  }
  if (!inspected.ok()) return Fail(inspected, options.json, kExitInfrastructure);
  // A plan that the guard would refuse is a failed verdict: scripts can ask before they run.
  const bool refused = std::any_of(views.begin(), views.end(), [](const auto& v) { return !v.refusal.ok(); });
  return refused ? kExitVerdict : kExitOk;
}

}  // namespace muster
