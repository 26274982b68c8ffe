#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/engine/report_bound.h"
#include "common/base/rng.h"
#include "controller/fleet/agent_messages.h"
#include "tests/sim/sim_queue.h"

namespace muster::sim {

// What is wrong with an agent, and when. One fault an agent at most, drawn from the seed.
enum class Fault : uint8_t {
  kNone,
  kVanishes,       // its connection breaks at `at`
  kFreezes,        // from `at` on it says nothing at all, Beats included
  kHangsInAttach,  // the command is never answered, Beats go on
  kHangsInPrepare,
  kHangsInStart,
  kHangsInRun,    // intervals stop after the first few
  kHangsInDrain,  // no PhaseEnded
  kHangsInDetach,
  kAttachError,
  kPrepareError,
  kRunError,     // the phase ends with an error: a fill that cannot write
  kEndsEarly,    // the phase ends without being told to
  kMissesStart,  // the first start or every one
  kAlwaysMisses,
  kDuplicates,     // reports come twice
  kSkipsSequence,  // a report is lost
  kStaleMessages,  // answers to phases that are not
  kTotalsLie,      // the totals do not add up
  kCorruptHistogram,
  kOverloads,
  kUnderfills,  // writes less than asked and says it is done
  kCount
};
const char* FaultName(Fault fault);

// What the agent measured in one step: the truth that results are held against.
struct Truth {
  std::map<uint32_t, Histogram> window;  // by initiator, operations done inside the window
  uint64_t bytes = 0;
};

// The phase an agent is in, or was in last.
struct ActivePhase {
  PhaseSpec spec;
  bool prepared = false, armed = false, over = false;
  Nanos t0 = 0;
  int64_t next = 0, last = 0;
  uint64_t fill_total = 0, fill_done = 0;
  std::map<uint32_t, KindTotals> totals;
  std::unique_ptr<ReportBound> bound;
  bool is_fill() const { return std::holds_alternative<FillSpec>(spec.work); }
};

// An agent as the protocol sees it: answers commands after a while, delivers intervals of random operations, may be
// faulty. All times on the queue; its own clock is `offset` away from fleet time.
class SimAgent {
 public:
  struct Options {
    std::string id, host;
    Fault fault = Fault::kNone;
    Nanos fault_at = kNever;       // for faults that happen at an instant
    Nanos latency = kMillisecond;  // one way; each message up to twice it
    Nanos clock_offset = 0;        // fleet minus agent
    Nanos clock_error = 0;         // its estimate is wrong by up to this
    size_t report_bound = size_t{64} << 10;
  };
  using Emit = std::function<void(AgentSays)>;  // arrives at the controller now

  SimAgent(Options options, uint64_t seed, SimQueue& queue, Emit emit);

  void Deliver(const AgentCommand& command);  // sent by the controller now
  void Cut();                                 // the link is gone: nothing goes in or out any more
  bool cut() const { return cut_; }
  // Its workers issue operations, as far as it knows.
  bool loading() const { return active_ && active_->armed && !active_->over; }
  bool frozen() const { return options_.fault == Fault::kFreezes && queue_.now() >= options_.fault_at; }
  const Options& options() const { return options_; }
  const std::map<uint32_t, Truth>& truth() const { return truth_; }
  // Start instants it armed for, in true fleet time, by key.
  const std::map<PhaseKey, Nanos>& starts() const { return starts_; }
  const std::map<PhaseKey, uint64_t>& ended() const { return ended_; }  // sequence of each PhaseEnded sent

 private:
  void Receive(const AgentCommand& command);
  void On(const AttachCommand& command);
  void On(const PrepareCommand& command);
  void On(const StartCommand& command);
  void On(const StopCommand& command);
  void On(const DetachCommand& command);
  void On(const InspectCommand&) {}
  void Edge(uint64_t serial);
  // An interval or the drain, and before it the histograms that earlier ones left out.
  void ReportInterval(IntervalDelta delta);
  IntervalDelta MakeDelta(int64_t interval, bool drain);
  void End(absl::Status status, bool overloaded = false);
  void Say(AgentSays says, Nanos after = 0);                                                       // Control, in order
  void Report(const PhaseKey& key, std::variant<IntervalDelta, HeldHistograms, PhaseEnded> body);  // Report, in order
  Nanos Delay(Nanos scale) { return static_cast<Nanos>(rng_.Unit() * static_cast<double>(scale)); }
  bool Is(Fault fault) const { return options_.fault == fault; }
  PhaseKey Strange(const PhaseKey& key);

  const Options options_;
  Rng rng_;
  Rng data_;  // what is measured: the same however many messages it takes
  SimQueue& queue_;
  const Emit emit_;
  bool cut_ = false;
  std::optional<ActivePhase> active_;
  uint64_t serial_ = 0;  // of the active phase: edges of an old one do nothing
  uint64_t sequence_ = 0;
  Nanos control_free_ = 0, report_free_ = 0, inbound_free_ = 0;  // streams keep their order
  uint32_t misses_ = 0;
  std::map<uint32_t, Truth> truth_;
  std::map<PhaseKey, Nanos> starts_;
  std::map<PhaseKey, uint64_t> ended_;
};

}  // namespace muster::sim
