#pragma once
#include <atomic>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/fleet/router.h"
#include "controller/queue/run_queue.h"
#include "controller/service/hand_over.h"
#include "controller/service/run_feed.h"

namespace muster {

// A campaign that is to be run, compiled, its secrets filled in.
struct Submission {
  Plan plan;
  Labels match;
  uint32_t agents = 0;  // RunNeeds::agents
  std::string campaign_text;
  std::map<std::string, std::string> target_places;  // RunOptions::target_places
  bool keep_raw = false;
};

// All runs of a controller: those that wait, those that go on, those that ended lately. One thread decides what begins
// and watches leases; each run has its run loop's thread and its store thread. Thread-safe; only Wait and the
// destructor block.
class RunBook {
 public:
  struct Options {
    std::string runs_dir;
    std::string build;
    QueueLimits queue;
    RunDeadlines deadlines;
    Nanos lease = 10 * kSecond;
  };
  // The hub outlives the book. Looks for interrupted runs first, which blocks on the disk.
  RunBook(Options options, AgentGateway& hub, const Clock& clock);
  // Stops what goes on at once and waits for it: DriveRun's deadlines bound that.
  ~RunBook();

  // The run's id. QUEUE_FULL, CONTROLLER_DRAINING.
  absl::StatusOr<std::string> Submit(Submission submission);
  struct Cancelled {
    std::string run;
    bool waiting = false;  // it had not begun
  };
  // RUN_UNKNOWN, RUN_AMBIGUOUS, RUN_NOT_RUNNING.
  absl::StatusOr<Cancelled> Cancel(const std::string& name, bool now);
  // RUN_UNKNOWN, RUN_AMBIGUOUS, WATCHERS_FULL.
  absl::Status Watch(const std::string& name, std::shared_ptr<RunWatcher> watcher);
  // Running, waiting in order, ended newest first.
  v1::RunList List();
  // Run file of a run by id, beginning of one or "last", also of runs of earlier controllers. RUN_UNKNOWN,
  // RUN_AMBIGUOUS, RUN_NOT_ENDED. Blocks on the disk.
  absl::StatusOr<std::string> ResultPath(const std::string& name);
  // The run that has the agent; empty: none.
  std::string UserOf(const std::string& agent);

  // Takes no more runs, ends those that wait and stops the others: level 1 after the interval that runs, 2 at once.
  // May be called again with a higher level.
  void Drain(int level);
  // Until no run is left or the time is over; true: none is.
  bool Wait(Nanos timeout);

  static constexpr size_t kEndedKept = 64;
  static constexpr size_t kEndedSteps = 20'000;  // of all those together

 private:
  struct Run {
    Run(std::string id_in, Submission submission_in, const Clock& clock)
        : id(std::move(id_in)), submission(std::move(submission_in)), feed(id, submission.plan, clock) {}
    const std::string id;
    Submission submission;  // the plan is dropped when the run has ended: it has the secrets
    RunFeed feed;
    v1::RunState state = v1::RUN_STATE_WAITING;
    Nanos since = 0;
    size_t steps = 0;
    int64_t submitted_wall_micros = 0;
    std::atomic<int> cancel{0};
    std::string path;  // of its file, once ended
    std::thread thread;
  };
  using RunPointer = std::shared_ptr<Run>;

  void Loop();
  void BeginRuns();
  void Execute(const RunPointer& run, const std::vector<std::string>& agents);
  void TellJoins(const std::vector<Member>& members);
  void EndWaiting(Run& run, const std::string& why);  // with the mutex held
  void Forget();                                      // likewise
  absl::StatusOr<RunPointer> Find(const std::string& name);

  const Options options_;
  AgentGateway& hub_;
  const Clock& clock_;
  AgentRouter router_;
  HandOver hand_over_;
  std::mutex mutex_;
  std::condition_variable changed_;
  RunQueue queue_;
  std::list<RunPointer> runs_;                // in the order they came
  std::vector<std::thread> over_;             // to be joined
  std::map<std::string, std::string> there_;  // agents by id: host name; the loop's own
  bool draining_ = false, stop_ = false;
  std::thread loop_;
};

}  // namespace muster
