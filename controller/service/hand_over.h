#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/queue.h"
#include "controller/fleet/router.h"
#include "controller/store/interrupted.h"
#include "controller/store/run_store.h"

namespace muster {

// Takes what agents still hold of runs whose controller has ended before they did: an agent keeps its reports until
// they are committed, and the controller that is started again on the same runs directory is who commits them. It adds
// them to the run's file, acknowledges them once they are committed, and ends the file as "interrupted" when all agents
// of the run have handed over, are there as other processes, or the time is over. Nothing is measured any further.
//
// An agent that hands over belongs to no run until it has (Busy). Thread-safe; the destructor alone blocks, on the
// disk.
class HandOver {
 public:
  struct Options {
    Nanos lease = 10 * kSecond;
    Nanos slack = 30 * kSecond;  // beside lease and op timeout, from the first agent of a run on
  };
  // The router outlives it.
  HandOver(std::vector<InterruptedRun> runs, AgentRouter& router, Options options, const Clock& clock);
  ~HandOver();

  // AgentGateway::WantsHeld.
  std::optional<uint64_t> Asked(const HelloInfo& hello);
  bool Busy(const std::string& agent);

 private:
  enum class Stage : uint8_t { kAwaited, kComing, kDone, kLost };
  struct Part {
    Stage stage = Stage::kAwaited;
    uint64_t committed = 0;
    size_t reports = 0;
    std::unique_ptr<AgentGateway> gateway;  // while it comes
  };
  struct Run {
    InterruptedRun file;
    std::map<std::string, Part> parts;
    Nanos until = kNever;  // an agent of it has been there
    std::unique_ptr<RunWriter> writer;
    bool failed = false;
  };
  struct Item {
    std::string agent;
    AgentReport report;
    std::shared_ptr<void> ticket;
  };
  struct Sink final : AgentSink {
    explicit Sink(BoundedQueue<Item>& q) : queue(q) {}
    bool OnAgentEvent(AgentEvent event) override;
    void OnFleetNote(const std::string&) override {}
    BoundedQueue<Item>& queue;
  };

  void Loop();
  void Take(Item item);
  absl::Status Write(Run& run, const Item& item);
  void EndRuns();
  void End(Run& run);

  AgentRouter& router_;
  const Options options_;
  const Clock& clock_;
  std::mutex mutex_;
  std::map<std::string, Run> runs_;  // by id; a run that has been ended is erased by the thread
  BoundedQueue<Item> queue_;
  Sink sink_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace muster
