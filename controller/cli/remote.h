#pragma once
#include <atomic>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "controller/cli/live_view.h"
#include "controller/cli/verbs.h"
#include "controller/client/controller_client.h"

namespace muster {

// Where `muster serve` listens unless told otherwise: /run/muster/control.sock as root, else below $XDG_RUNTIME_DIR.
// Empty: there is no such place.
std::string DefaultServeSocket();
// Where its run files lie unless told otherwise: /var/lib/muster/runs as root, else as those of `muster run`.
std::string DefaultServeRunsDir();

// The controller that is meant: the option, else $MUSTER_CONTROLLER, else the default socket.
std::string ControllerAddress(const std::string& option);
// CONTROLLER_NOT_THERE and what ControllerClient::Connect says.
absl::StatusOr<std::unique_ptr<ControllerClient>> ConnectTo(const ControllerReach& reach, Nanos timeout = 5 * kSecond);

// Usage (2) for what the user got wrong, infrastructure (3) for the rest.
int ExitCodeFor(const absl::Status& error);

// Events of a run elsewhere, shown by the views of a run in this process.
class EventPlayer {
 public:
  EventPlayer(ViewMode mode, const Clock& clock) : mode_(mode), clock_(clock) {}
  // A typed error for what cannot be shown: EVENT_INVALID.
  absl::Status Play(const v1::RunEvent& event);
  void Note(const std::string& text);
  void Close();
  // Set by the last event.
  const std::optional<RunOutcome>& outcome() const { return outcome_; }
  const std::string& run() const { return run_; }

 private:
  absl::Status Planned(const v1::RunPlanned& planned);
  const Step* StepOf(uint32_t index) const;

  const ViewMode mode_;
  const Clock& clock_;
  Plan plan_;  // what of it is shown
  std::string run_, waits_;
  std::unique_ptr<RunView> view_;
  std::optional<RunOutcome> outcome_;
};

struct FollowOptions {
  std::string run;
  bool json = false, quiet = false;
  bool lines = false;  // plain lines on a terminal too
  bool owner = false;  // an interrupt cancels the run; else it ends the watching alone
};
// Shows a run until it ends, then its result; the exit code is the run's. `leave`: stop watching, the run goes on.
int FollowRun(ControllerClient& client, const FollowOptions& options, const std::atomic<int>& cancel,
              const std::atomic<int>& leave);

}  // namespace muster
