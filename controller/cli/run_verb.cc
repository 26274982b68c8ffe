#include <fmt/format.h>
#include <unistd.h>

#include <optional>

#include "common/base/status.h"
#include "common/wire/text.h"
#include "common/wire/version.h"
#include "controller/cli/json_events.h"
#include "controller/cli/live_view.h"
#include "controller/cli/output.h"
#include "controller/cli/remote.h"
#include "controller/cli/resume.h"
#include "controller/cli/run_outcome.h"
#include "controller/cli/session.h"
#include "controller/cli/verbs.h"
#include "controller/report/report.h"
#include "controller/run/run_id.h"

namespace muster {
namespace {

ViewMode ModeOf(const RunVerbOptions& options) {
  if (options.json) return ViewMode::kJson;
  if (options.quiet) return ViewMode::kQuiet;
  return isatty(STDERR_FILENO) && isatty(STDOUT_FILENO) ? ViewMode::kLive : ViewMode::kPlain;
}

// The campaign as read and what its secrets stand for, which the controller must be told.
v1::SubmitRunRequest RequestOf(const ReadCampaign& campaign, const RunVerbOptions& options) {
  v1::SubmitRunRequest request;
  request.set_campaign_file(WireText(campaign.loaded.file, 4096));
  request.set_campaign_text(campaign.loaded.text);
  request.set_agents(options.agents);
  request.set_keep_raw(options.keep_raw);
  const auto add = [&](const Target& target, const Secret& secret, bool mutual) {
    if (secret.reference.empty()) return;
    v1::ResolvedSecret& out = *request.add_secrets();
    out.set_target(target.name);
    out.set_mutual(mutual);
    out.set_value(secret.value);
  };
  for (const Target& target : campaign.plan.targets) {
    const auto* iscsi = std::get_if<IscsiTarget>(&target.kind);
    if (iscsi == nullptr) continue;
    add(target, iscsi->secret, false);
    add(target, iscsi->mutual_secret, true);
  }
  return request;
}

int RunElsewhere(const ReadCampaign& campaign, const RunVerbOptions& options, const std::atomic<int>& cancel,
                 const std::atomic<int>& leave) {
  auto client = ConnectTo(options.controller);
  if (!client.ok()) return Fail(client.status(), options.json, ExitCodeFor(client.status()));
  const auto run = (*client)->Submit(RequestOf(campaign, options));
  if (!run.ok()) return Fail(run.status(), options.json, ExitCodeFor(run.status()));
  if (options.json) {
    Out("{}\n", JsonSubmitted(*run));
  } else if (options.detach) {
    Out("{}\n", *run);
  }
  FlushOut();
  if (options.detach) return kExitOk;
  return FollowRun(**client, {.run = *run, .json = options.json, .quiet = options.quiet, .owner = true}, cancel, leave);
}

}  // namespace

int RunVerb(const RunVerbOptions& options, const std::atomic<int>& cancel, const std::atomic<int>& leave) {
  const std::string runs_dir = options.runs_dir.empty() ? DefaultRunsDir() : options.runs_dir;
  std::optional<ResumedCampaign> resumed;
  if (!options.resume.empty()) {
    auto read = ReadToResume(runs_dir, options.resume);
    if (!read.ok()) return Fail(read.status(), options.json, kExitUsage);
    resumed = *std::move(read);
  }
  auto campaign = resumed ? absl::StatusOr<ReadCampaign>(resumed->campaign) : ReadAndCompile(options.campaign);
  if (!campaign.ok()) return Fail(campaign.status(), options.json, kExitUsage);
  if (options.remote) return RunElsewhere(*campaign, options, cancel, leave);
  const Plan& plan = resumed ? resumed->left : campaign->plan;
  const SteadyClock& clock = SteadyClock::Get();
  // The local agents have this machine's memory and no other bound: what cannot be prepared is not begun.
  if (const absl::Status fits = CheckBuffers(plan, options.local, DefaultBufferBound()); !fits.ok()) {
    return Fail(fits, options.json, kExitUsage);
  }

  RunOptions run;
  run.runs_dir = runs_dir;
  run.keep_raw = options.keep_raw;
  run.lease = options.lease;
  run.header.started_wall_micros = WallMicros();
  run.header.id = MakeRunId(plan.name, run.header.started_wall_micros);
  run.header.campaign_name = plan.name;
  run.header.campaign_text = campaign->loaded.text;
  run.header.build = std::string(BuildString());
  run.target_places = campaign->loaded.TargetPlaces();
  if (resumed) Resume(*resumed, run);

  RunOutcome outcome;
  // Ended last: the result does not wait for an agent that hangs.
  std::unique_ptr<LocalSession> session;
  {
    auto view = MakeRunView(ModeOf(options), campaign->plan, clock);
    if (resumed) view->OnNote(run.resume_note);
    for (const auto& warning : plan.warnings) view->OnNote("warning: " + warning);
    if (!campaign->loaded.message.initiators().match().empty()) {
      view->OnNote("warning: initiators.match chooses agents of a controller; local agents have no labels");
    }
    auto started = StartLocalSession(plan, options.local, options.lease, options.log_level, cancel);
    if (!started.ok()) {
      view->Close();
      return Fail(started.status(), options.json,
                  absl::IsCancelled(started.status()) ? kExitVerdict : kExitInfrastructure);
    }
    session = *std::move(started);
    outcome = session->server->Run(plan, run, *view, cancel);
    // What the agent that ended said explains a lost agent best.
    if (absl::Status ended = session->agents->Check(); !ended.ok()) view->OnNote(FormatError(ended));
    view->Close();
  }
  outcome.any_invalid |= resumed && resumed->point.any_invalid;

  std::string text;
  if (!outcome.path.empty()) {
    auto reader = RunReader::Open(outcome.path);
    if (!reader.ok()) return Fail(reader.status(), options.json, kExitInfrastructure);
    auto made = options.json ? RunJson(**reader) : FormatResultsTable(**reader);
    if (!made.ok()) return Fail(made.status(), options.json, kExitInfrastructure);
    text = *std::move(made);
  }
  return PrintOutcome(outcome, text, options.runs_dir, options.json);
}

}  // namespace muster
