#include <fmt/format.h>

#include <algorithm>

#include "common/base/status.h"
#include "controller/cli/output.h"
#include "controller/cli/probe_request.h"
#include "controller/cli/probe_text.h"
#include "controller/cli/session.h"
#include "controller/cli/verbs.h"

namespace muster {
namespace {

constexpr Nanos kPatience = 70 * kSecond;  // the agent's own limit of 60 s, which says more, comes first

// A verdict: the guard would not let the campaign write what it is to write.
bool GuardRefuses(const ProbeRequest& request, const TargetView& view) {
  if (!view.probe) return !view.refusal.ok();
  return request.writes && std::any_of(view.probe->luns.begin(), view.probe->luns.end(),
                                       [](const ProbedLun& lun) { return lun.used && !lun.refusal.ok(); });
}

}  // namespace

int TargetsProbeVerb(const ProbeVerbOptions& options, const std::atomic<int>& cancel) {
  const auto request = ProbeRequestOf(options);
  if (!request.ok()) return Fail(request.status(), options.json, kExitUsage);
  Plan plan;  // names what the local agent may touch
  plan.targets = {request->target};
  const auto session = StartLocalSession(plan, 1, 10 * kSecond, options.log_level, cancel);
  if (!session.ok()) return Fail(session.status(), options.json, kExitInfrastructure);
  const auto views = (*session)->server->Probe(*request, kPatience);
  if (!views.ok()) return Fail(views.status(), options.json, kExitInfrastructure);
  const bool iscsi = std::holds_alternative<IscsiTarget>(request->target.kind);
  int code = kExitOk;
  for (const TargetView& view : *views) {
    if (view.probe || !iscsi) {
      if (options.json) {
        Out("{}\n", JsonProbe(view));
      } else {
        Out("{}", ProbeText(view));
      }
      FlushOut();
    }
    // An iSCSI target that cannot be used as asked at all: nothing there to judge.
    if (iscsi && !view.refusal.ok()) return Fail(view.refusal, options.json, kExitInfrastructure);
    if (GuardRefuses(*request, view)) code = kExitVerdict;
  }
  return code;
}

}  // namespace muster
