#include "controller/cli/remote.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "common/base/status.h"
#include "controller/cli/output.h"
#include "controller/cli/run_outcome.h"
#include "controller/cli/session.h"
#include "controller/cli/verbs.h"
#include "controller/store/run_store.h"

namespace muster {
namespace {

constexpr char kSocketName[] = "/muster/control.sock";
constexpr Nanos kPoll = 50 * kMillisecond;  // signals are looked at this often

ViewMode ModeOf(const FollowOptions& options) {
  if (options.json) return ViewMode::kJson;
  if (options.quiet) return ViewMode::kQuiet;
  if (options.lines) return ViewMode::kPlain;
  return isatty(STDERR_FILENO) && isatty(STDOUT_FILENO) ? ViewMode::kLive : ViewMode::kPlain;
}

// DIR of DIR/ID/run.db, if `muster results` would not look there by itself.
std::string RunsDirOf(const std::string& path, const std::string& run) {
  const size_t at = path.find("/" + run + "/");
  if (at == std::string::npos || path.substr(0, at) == DefaultRunsDir()) return {};
  return path.substr(0, at);
}

// Cancels as often as the user has asked; a run that has just ended is no error.
void AskForEnd(ControllerClient& client, const std::string& run, int level, EventPlayer& player) {
  const auto cancelled = client.Cancel(run, level >= 2);
  if (!cancelled.ok()) {
    if (GetErrorInfo(cancelled.status()).code != "RUN_NOT_RUNNING") player.Note(FormatError(cancelled.status()));
  } else if (!cancelled->waiting()) {
    player.Note(level >= 2 ? "stopping at once" : "stopping after the interval that runs");
  }
}

}  // namespace

std::string DefaultServeSocket() {
  if (geteuid() == 0) return std::string("/run") + kSocketName;
  const char* runtime = getenv("XDG_RUNTIME_DIR");
  return runtime != nullptr && runtime[0] == '/' ? std::string(runtime) + kSocketName : std::string();
}

std::string DefaultServeRunsDir() {
  return geteuid() == 0 ? "/var/lib/muster/runs" : DefaultRunsDir();
}

std::string ControllerAddress(const std::string& option) {
  if (!option.empty()) return option;
  if (const char* named = getenv("MUSTER_CONTROLLER"); named != nullptr && named[0] != 0) return named;
  const std::string socket = DefaultServeSocket();
  return socket.empty() ? std::string() : "unix:" + socket;
}

absl::StatusOr<std::unique_ptr<ControllerClient>> ConnectTo(const ControllerReach& reach, Nanos timeout) {
  const std::string address = ControllerAddress(reach.address);
  if (address.empty()) {
    return MakeError(absl::StatusCode::kUnavailable,
                     {.code = "CONTROLLER_NOT_THERE",
                      .place = "controller",
                      .message = "no controller is named and there is no usual place for one",
                      .next = "Start one with `muster serve --listen unix:PATH` and name it with --controller or "
                              "MUSTER_CONTROLLER."});
  }
  const auto from = [](const std::string& value, const char* name) {
    const char* otherwise = value.empty() ? getenv(name) : nullptr;
    return otherwise == nullptr ? value : std::string(otherwise);
  };
  // A Unix socket needs none of them, so what the environment says is for TCP alone.
  TlsFiles tls = reach.tls;
  if (!address.starts_with("unix:") && !reach.insecure_tcp) {
    tls = {.ca = from(tls.ca, "MUSTER_CA"), .cert = from(tls.cert, "MUSTER_CERT"), .key = from(tls.key, "MUSTER_KEY")};
  }
  return ControllerClient::Connect(address, tls, reach.insecure_tcp, timeout);
}

int ExitCodeFor(const absl::Status& error) {
  return absl::IsInvalidArgument(error) || absl::IsNotFound(error) || absl::IsFailedPrecondition(error)
             ? kExitUsage
             : kExitInfrastructure;
}

int FollowRun(ControllerClient& client, const FollowOptions& options, const std::atomic<int>& cancel,
              const std::atomic<int>& leave) {
  EventPlayer player(ModeOf(options), SteadyClock::Get());
  const auto watch = client.Watch(options.run);
  int asked = 0;
  absl::Status broken;
  while (!player.outcome() && broken.ok()) {
    auto event = watch->Next(kPoll);
    broken = event.status();
    if (event.ok() && *event) broken = player.Play(**event);
    if (event.ok() && !*event && watch->over() && !player.outcome()) {
      broken = MakeError(absl::StatusCode::kUnavailable, {.code = "CONTROLLER_LOST",
                                                          .place = "run " + options.run,
                                                          .message = "the controller told no end of the run",
                                                          .next = "`muster status` shows where it is."});
    }
    if (leave.load() > 0 || (!options.owner && cancel.load() > 0)) {
      player.Note(fmt::format("no longer watching; run {} goes on", player.run()));
      player.Close();
      return kExitInfrastructure;
    }
    const int level = std::min(cancel.load(), 2);
    if (options.owner && level > asked && !player.run().empty()) AskForEnd(client, player.run(), asked = level, player);
  }
  player.Close();
  if (!broken.ok()) return Fail(broken, options.json, ExitCodeFor(broken));
  const RunOutcome& outcome = *player.outcome();
  std::string text;
  if (!outcome.path.empty()) {
    auto result = client.Result(outcome.run_id, options.json ? v1::RESULT_FORM_JSON : v1::RESULT_FORM_TABLE);
    if (!result.ok()) return Fail(result.status(), options.json, kExitInfrastructure);
    text = *std::move(result);
  }
  return PrintOutcome(outcome, text, RunsDirOf(outcome.path, outcome.run_id), options.json);
}

}  // namespace muster
