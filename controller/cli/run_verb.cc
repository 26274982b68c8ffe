#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>

#include "common/base/rng.h"
#include "common/base/status.h"
#include "common/wire/version.h"
#include "controller/cli/json_events.h"
#include "controller/cli/live_view.h"
#include "controller/cli/output.h"
#include "controller/cli/session.h"
#include "controller/cli/verbs.h"
#include "controller/report/report.h"

namespace muster {
namespace {

std::string MakeRunId(const std::string& campaign, int64_t wall_micros) {
  const std::time_t seconds = wall_micros / 1'000'000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  uint64_t seed = static_cast<uint64_t>(wall_micros) ^ (static_cast<uint64_t>(getpid()) << 40);
  return fmt::format("{:04}{:02}{:02}-{:02}{:02}{:02}-{}-{:04x}", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min, utc.tm_sec, campaign.substr(0, 32), SplitMix64(seed) & 0xFFFF);
}

ViewMode ModeOf(const RunVerbOptions& options) {
  if (options.json) return ViewMode::kJson;
  if (options.quiet) return ViewMode::kQuiet;
  return isatty(STDERR_FILENO) && isatty(STDOUT_FILENO) ? ViewMode::kLive : ViewMode::kPlain;
}

int ExitCodeOf(const RunOutcome& outcome) {
  if (outcome.outcome == "complete") return outcome.any_invalid ? kExitVerdict : kExitOk;
  if (outcome.outcome == "cancelled") return kExitVerdict;
  return kExitInfrastructure;
}

}  // namespace

int RunVerb(const RunVerbOptions& options, const std::atomic<int>& cancel) {
  auto campaign = ReadAndCompile(options.campaign);
  if (!campaign.ok()) return Fail(campaign.status(), options.json, kExitUsage);
  const Plan& plan = campaign->plan;
  const SteadyClock& clock = SteadyClock::Get();
  // The local agents have this machine's memory and no other bound: what cannot be prepared is not begun.
  if (const absl::Status fits = CheckBuffers(plan, options.local, DefaultBufferBound()); !fits.ok()) {
    return Fail(fits, options.json, kExitUsage);
  }

  RunOptions run;
  run.runs_dir = options.runs_dir.empty() ? DefaultRunsDir() : options.runs_dir;
  run.keep_raw = options.keep_raw;
  run.lease = options.lease;
  run.header.started_wall_micros = WallMicros();
  run.header.id = MakeRunId(plan.name, run.header.started_wall_micros);
  run.header.campaign_name = plan.name;
  run.header.campaign_text = campaign->loaded.text;
  run.header.build = std::string(BuildString());
  run.target_places = campaign->loaded.TargetPlaces();

  RunOutcome outcome;
  {
    auto view = MakeRunView(ModeOf(options), plan, clock);
    for (const auto& warning : plan.warnings) view->OnNote("warning: " + warning);
    auto session = StartLocalSession(plan, options.local, options.lease, options.log_level, cancel);
    if (!session.ok()) {
      view->Close();
      return Fail(session.status(), options.json,
                  absl::IsCancelled(session.status()) ? kExitVerdict : kExitInfrastructure);
    }
    outcome = (*session)->server->Run(plan, run, *view, cancel);
    // What the agent that ended said explains a lost agent best.
    if (absl::Status ended = (*session)->agents->Check(); !ended.ok()) view->OnNote(FormatError(ended));
    view->Close();
  }

  const int exit_code = ExitCodeOf(outcome);
  std::string document = "null", table;
  if (!outcome.path.empty()) {
    auto reader = RunReader::Open(outcome.path);
    if (!reader.ok()) return Fail(reader.status(), options.json, kExitInfrastructure);
    auto text = options.json ? RunJson(**reader) : FormatResultsTable(**reader);
    if (!text.ok()) return Fail(text.status(), options.json, kExitInfrastructure);
    (options.json ? document : table) = *text;
  }
  if (options.json) {
    Out("{}\n", JsonOutcome(outcome, exit_code, document));
  } else {
    Out("{}", table);
    if (!outcome.path.empty()) {
      // As it can be pasted: with the folder where that is not the usual one.
      const std::string where = options.runs_dir.empty() ? "" : "--runs " + options.runs_dir + " ";
      Out("\nrun {}: {}\nrun file: {}\ndetails:  muster results {}show {}\nexport:   muster results {}export {} "
          "--format json|csv|hlog\n",
          outcome.run_id, outcome.outcome, outcome.path, where, outcome.run_id, where, outcome.run_id);
    }
    FlushOut();
  }
  if (!outcome.error.ok()) Err("muster: {}\n", FormatError(outcome.error));
  return exit_code;
}

}  // namespace muster
