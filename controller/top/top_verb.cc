#include "controller/top/top_verb.h"

#include <mutex>
#include <optional>

#include "common/base/status.h"
#include "controller/cli/remote.h"
#include "controller/cli/session.h"
#include "controller/top/feed.h"
#include "controller/top/screen.h"

namespace muster {
namespace {

constexpr Nanos kKeys = 100 * kMillisecond;    // signals and a new size are looked at this often
constexpr Nanos kRedraw = 250 * kMillisecond;  // without a key
constexpr Nanos kPlan = 5 * kSecond;

// The id of a run that the user has named, from the first event of its watch.
absl::StatusOr<std::string> Named(ControllerClient& client, const std::string& name) {
  const auto watch = client.Watch(name);
  MUSTER_ASSIGN_OR_RETURN(const auto event, watch->Next(kPlan));
  if (event && event->has_planned()) return event->planned().run();
  return MakeError(absl::StatusCode::kDeadlineExceeded, {.code = "CONTROLLER_LOST",
                                                         .place = "run " + name,
                                                         .message = "the controller does not say what it is",
                                                         .next = "See whether `muster serve` still runs."});
}

}  // namespace

int TopVerb(const RemoteVerbOptions& options, const std::atomic<int>& cancel, const std::atomic<int>& leave) {
  const auto fail = [](const absl::Status& why) { return Fail(why, /*json=*/false, ExitCodeFor(why)); };
  const SteadyClock& clock = SteadyClock::Get();
  if (absl::Status status = Screen::Check(); !status.ok()) return fail(status);
  auto client = ConnectTo(options.controller);
  if (!client.ok()) return fail(client.status());
  absl::StatusOr<std::string> run = options.run;
  if (!options.run.empty()) run = Named(**client, options.run);
  if (!run.ok()) return fail(run.status());
  TopModel model(ControllerAddress(options.controller.address));
  std::mutex mutex;
  std::optional<TopFeed> feed;
  absl::Status gone;
  {
    auto screen = Screen::Open();
    if (!screen.ok()) return fail(screen.status());
    feed.emplace(*std::move(client), options.controller, *run, model, mutex, clock);
    Nanos drawn = -kNever;
    TopSize last{.width = 0};
    while (cancel.load() == 0 && leave.load() == 0) {
      const TopSize size = (*screen)->Size();
      if (const Nanos now = clock.Now();
          now - drawn >= kRedraw || size.width != last.width || size.height != last.height) {
        TopFrame frame;
        {
          std::lock_guard lock(mutex);
          frame = DrawTop(model, size, now);
          model.SetPage(frame.rows);
        }
        (*screen)->Show(frame);
        drawn = now;
        last = size;
      }
      auto keys = (*screen)->Keys(kKeys);
      if (!keys.ok()) {
        gone = keys.status();
        break;
      }
      bool quit = false;
      {
        std::lock_guard lock(mutex);
        for (const TopKey key : *keys) {
          quit = quit || key == TopKey::kQuit;
          model.Press(key);
        }
      }
      if (quit) break;
      if (!keys->empty()) drawn = -kNever;
    }
  }
  // The terminal is back before anything waits for the controller.
  feed.reset();
  return gone.ok() ? kExitOk : fail(gone);
}

}  // namespace muster
