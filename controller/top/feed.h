#pragma once
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "controller/cli/verbs.h"
#include "controller/client/controller_client.h"
#include "controller/top/model.h"

namespace muster {

// Fills a model with what a controller says: who is there and what it runs once a second, and the events of one run as
// they come. Finds the controller again when it is lost, and the run when its watch broke off. One thread of its own;
// model and mutex are shared with who draws, and the mutex is never held while waiting.
class TopFeed {
 public:
  // `run`: the one to watch; empty: TopModel::Choice.
  TopFeed(std::unique_ptr<ControllerClient> client, ControllerReach reach, std::string run, TopModel& model,
          std::mutex& mutex, const Clock& clock);
  // Ends what waits for the controller.
  ~TopFeed();

 private:
  void Loop();
  bool Connected();  // false: tried in vain
  void Poll();
  void Follow();
  void Lost(const absl::Status& why);
  void Pause(Nanos time);
  bool Stopped();

  const ControllerReach reach_;
  const std::string fixed_;
  TopModel& model_;
  std::mutex& mutex_;
  const Clock& clock_;
  std::mutex own_;  // of what follows up to the thread
  std::condition_variable changed_;
  bool stop_ = false;
  std::shared_ptr<ControllerClient> client_;
  std::unique_ptr<RunWatch> watch_;  // of watched_; before client_ goes
  std::string watched_;
  bool ended_ = false;  // its end has been told, or it cannot be watched
  Nanos next_poll_ = 0;
  std::thread thread_;
};

}  // namespace muster
