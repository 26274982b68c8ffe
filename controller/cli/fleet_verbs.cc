#include "controller/cli/fleet_text.h"
#include "controller/cli/json_events.h"
#include "controller/cli/output.h"
#include "controller/cli/remote.h"
#include "controller/cli/session.h"
#include "controller/cli/verbs.h"

namespace muster {

int AgentsVerb(const RemoteVerbOptions& options) {
  auto client = ConnectTo(options.controller);
  if (!client.ok()) return Fail(client.status(), options.json, ExitCodeFor(client.status()));
  const auto agents = (*client)->ListAgents();
  if (!agents.ok()) return Fail(agents.status(), options.json, ExitCodeFor(agents.status()));
  if (options.json) {
    Out("{}\n", JsonAgents(*agents));
  } else {
    PutOut(AgentsText(*agents));
  }
  return kExitOk;
}

int StatusVerb(const RemoteVerbOptions& options) {
  auto client = ConnectTo(options.controller);
  if (!client.ok()) return Fail(client.status(), options.json, ExitCodeFor(client.status()));
  const auto runs = (*client)->ListRuns();
  if (!runs.ok()) return Fail(runs.status(), options.json, ExitCodeFor(runs.status()));
  if (options.ids_only) {
    for (const v1::RunStatus& run : runs->runs()) {
      if (run.state() != v1::RUN_STATE_ENDED) Out("{}\n", run.run());
    }
  } else if (options.json) {
    Out("{}\n", JsonRuns(*runs));
  } else {
    PutOut(RunsText(*runs));
  }
  return kExitOk;
}

int WatchVerb(const RemoteVerbOptions& options, const std::atomic<int>& cancel, const std::atomic<int>& leave) {
  auto client = ConnectTo(options.controller);
  if (!client.ok()) return Fail(client.status(), options.json, ExitCodeFor(client.status()));
  return FollowRun(**client, {.run = options.run, .json = options.json, .lines = true}, cancel, leave);
}

int CancelVerb(const RemoteVerbOptions& options) {
  auto client = ConnectTo(options.controller);
  if (!client.ok()) return Fail(client.status(), options.json, ExitCodeFor(client.status()));
  const auto cancelled = (*client)->Cancel(options.run, options.now);
  if (!cancelled.ok()) return Fail(cancelled.status(), options.json, ExitCodeFor(cancelled.status()));
  if (options.json) {
    Out("{}\n", JsonCancelled(*cancelled, options.now));
  } else {
    Out("run {} {}\n", cancelled->run(),
        cancelled->waiting() ? "has left the queue"
        : options.now        ? "stops at once"
                             : "ends after the interval that runs");
  }
  return kExitOk;
}

}  // namespace muster
