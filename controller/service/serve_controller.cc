#include "controller/service/serve_controller.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "common/base/log_file.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/wire/version.h"
#include "controller/service/agent_link_service.h"
#include "controller/service/api_service.h"

namespace muster {
namespace {

constexpr Nanos kGoodbye = 3 * kSecond;
constexpr Nanos kQuiet = 500 * kMillisecond;
constexpr Nanos kPoll = 50 * kMillisecond;  // signals are looked at this often

absl::Status MakeRunsDir(const std::string& dir) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (!error && access(dir.c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
  return MakeError(absl::StatusCode::kPermissionDenied,
                   {.code = "RUNS_DIR",
                    .place = dir,
                    .message = error ? "it cannot be made: " + error.message() : "it cannot be written",
                    .next = "Name another directory with --runs."});
}

class Serving final : public ServeController {
 public:
  explicit Serving(const ServeOptions& options)
      : options_(options),
        listener_(options.listen),
        clock_(SteadyClock::Get()),
        hub_(FleetOf(std::string(BuildString()), options.lease), RandomEpoch(), clock_),
        book_({.runs_dir = options.runs_dir,
               .build = std::string(BuildString()),
               .queue = {},
               .deadlines = {},
               .lease = options.lease},
              hub_, clock_),
        agents_(hub_),
        api_(hub_, book_, std::string(BuildString()), options.lease, clock_) {}
  ~Serving() override { Close(); }

  absl::Status Start();
  std::vector<Endpoint> Listening() const override { return listener_.endpoints(); }
  void Serve(const std::atomic<int>& stop, const std::atomic<int>& reopen) override;

 private:
  void Close();
  void LookAtLog(const std::atomic<int>& reopen);

  const ServeOptions options_;
  Listener listener_;
  const Clock& clock_;
  // Each outlives what follows it.
  LinkHub hub_;
  RunBook book_;
  AgentLinkService agents_;
  ControllerApiService api_;
  int reopened_ = 0;
};

absl::Status Serving::Start() {
  MUSTER_RETURN_IF_ERROR(MakeRunsDir(options_.runs_dir));
  MUSTER_RETURN_IF_ERROR(listener_.Listen({&agents_, &api_}));
  prctl(PR_SET_DUMPABLE, 0);
  for (const Endpoint& endpoint : listener_.endpoints()) {
    Log(LogLevel::kInfo, "muster {} listens on {}, runs in {}, lease {}", BuildString(), endpoint.Text(),
        options_.runs_dir, FormatDuration(options_.lease));
  }
  return absl::OkStatus();
}

void Serving::LookAtLog(const std::atomic<int>& reopen) {
  const int asked = reopen.load();
  if (asked == reopened_) return;
  reopened_ = asked;
  if (absl::Status status = ReopenLogFile(); !status.ok()) {
    Log(LogLevel::kError, "the old log file stays in use: {}", FormatError(status));
  } else {
    Log(LogLevel::kInfo, "log reopened");
  }
}

void Serving::Serve(const std::atomic<int>& stop, const std::atomic<int>& reopen) {
  while (stop.load() == 0) {
    LookAtLog(reopen);
    std::this_thread::sleep_for(std::chrono::nanoseconds(kPoll));
  }
  int level = std::min(stop.load(), 2);
  Log(LogLevel::kInfo, "ending: {}, at most {}", level == 1 ? "runs end after their interval" : "runs stop at once",
      FormatDuration(options_.drain));
  book_.Drain(level);
  const Nanos until = clock_.Now() + options_.drain;
  while (!book_.Wait(kPoll)) {
    LookAtLog(reopen);
    const bool late = clock_.Now() >= until;
    if (level < 2 && (stop.load() >= 2 || late)) {
      Log(LogLevel::kWarning, "runs are stopped at once: {}",
          late ? "not ended within " + FormatDuration(options_.drain) : "asked for a second time");
      level = 2;
      book_.Drain(level);
    }
  }
  Close();
  Log(LogLevel::kInfo, "ended");
}

void Serving::Close() {
  if (!listener_.listening()) return;
  if (!api_.WaitForQuiet(kQuiet, kGoodbye)) Log(LogLevel::kWarning, "clients did not take the end of their runs");
  listener_.Close(hub_);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServeController>> ServeController::Listen(const ServeOptions& options) {
  auto controller = std::make_unique<Serving>(options);
  MUSTER_RETURN_IF_ERROR(controller->Start());
  return controller;
}

}  // namespace muster
