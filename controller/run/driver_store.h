#pragma once
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "common/base/queue.h"
#include "controller/run/driver_inbox.h"
#include "controller/store/run_store.h"

namespace muster {

// One operation for the store thread.
struct StoreSpace {
  std::string dir;
  uint64_t bytes = 0;
};
struct StoreEvent {
  int64_t wall_micros = 0;
  std::string text;
};
struct StoreOp {
  std::variant<StoreSpace, CommitReportAction, WriteIntervalAction, SealStepAction, SealPhaseAction, StoreEvent,
               FinishAction>
      what;
  std::shared_ptr<void> ticket;  // of the report; dropped when the store thread has taken the operation
};

// The one thread that touches the run file. Reports that wait together are committed in one transaction; answers go
// to the inbox. After the first failure nothing further is written but the end of the run, which is always tried.
// A disk that hangs cannot hold up the run: the thread is then left behind with all that it uses.
class StoreThread {
 public:
  using Open = std::function<absl::StatusOr<std::unique_ptr<RunWriter>>()>;

  // `open` runs on the thread first; `opened` is told the path of the file, or the error, there.
  StoreThread(Open open, std::function<void(absl::StatusOr<std::string>)> opened, std::shared_ptr<DriverInbox> inbox);
  // Ends the thread if it ends within `kLeave`.
  ~StoreThread();

  // False: full, the operation is untouched. Never blocks.
  bool TryPush(StoreOp& op);

  static constexpr size_t kQueue = 256;
  static constexpr Nanos kLeave = 5 * kSecond;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace muster
