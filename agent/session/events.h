#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "agent/session/clock_estimator.h"
#include "agent/session/messages.h"
#include "common/base/logging.h"

// What the session is told (events) and what it wants done (actions). Plain data: the driver carries actions out in
// order and brings results back as events; tests do both by hand.
namespace muster::agent {

// ---- Events

// From the link numbered by Dial::link; those of an earlier link are ignored.
struct MessageArrived {
  uint64_t link = 0;
  ControllerSays message;
  Nanos received = 0;  // local clock, stamped where it came in: t4 of a beat
  uint64_t seq = 0;    // number within the session; 0: HelloReply, BeatReply, Goodbye
};
// A message that failed validation or decoding; `key` as far as it could be read.
struct BadMessage {
  uint64_t link = 0;
  uint64_t seq = 0;
  PhaseKey key;
  absl::Status status;
};
struct AckArrived {
  uint64_t link = 0;
  uint64_t committed = 0;
  absl::Status error;  // not OK: the report was refused, the stream ends
};
struct LinkLost {
  uint64_t link = 0;
  absl::Status why;
};

// Answers to the Do* actions of the same name; at most one of them is under way at any time.
struct AttachFinished {
  absl::Status status;
  uint64_t generation = 0;
  Facts evidence;
};
struct InspectFinished {
  std::vector<TargetInspection> inspections;
};
struct DetachFinished {
  absl::Status status;
};
struct PrepareFinished {
  absl::Status status;
  uint64_t memory_bytes = 0;
  Facts facts;
};
// `joined` false: threads of the engine are still stuck; it is kept and asked again.
struct ReleaseFinished {
  bool joined = true;
};

// From the engine that DoPrepare numbered; those of an earlier engine are ignored.
struct EngineFirstIo {
  uint64_t engine = 0;
  Nanos local = 0, wake_lateness = 0;
};
struct EngineInterval {
  uint64_t engine = 0;
  IntervalDelta delta;
};
struct EngineHeld {
  uint64_t engine = 0;
  HeldHistograms held;
};
struct EngineProgress {
  uint64_t engine = 0;
  uint64_t bytes_done = 0, bytes_total = 0;
};
struct EngineEnded {
  uint64_t engine = 0;
  PhaseTotals totals;
  absl::Status status;
};
// The driver could not queue a delta: the session was not scheduled for very long. The phase cannot add up any more.
struct EngineOverrun {
  uint64_t engine = 0;
};

struct ShutdownAsked {
  std::string why;
};
// Time has passed; nothing else.
struct Tick {};

using Event = std::variant<MessageArrived, BadMessage, AckArrived, LinkLost, AttachFinished, InspectFinished,
                           DetachFinished, PrepareFinished, ReleaseFinished, EngineFirstIo, EngineInterval, EngineHeld,
                           EngineProgress, EngineEnded, EngineOverrun, ShutdownAsked, Tick>;

// ---- Actions

struct Dial {
  uint64_t link = 0;
  Hello hello;
};
struct OpenReports {
  uint64_t link_id = 0;
};
// Nothing more comes from this link; what was said before may still go out.
struct CloseLink {};
struct Say {
  AgentSays message;
  uint64_t seq = 0;  // number within the session; 0: Beat, Leaving
};
struct SendReport {
  std::shared_ptr<const Report> report;
};

// For the work thread, one after the other; each is answered by the event of its name.
struct DoAttach {
  AttachRequest request;
};
struct DoInspect {
  std::vector<InspectItem> items;
};
struct DoDetach {
  bool all = true;
  std::string target;
};
struct DoPrepare {
  uint64_t engine = 0;
  PhaseSpec spec;
  Nanos deadline = 0;  // local clock
};
struct DoRelease {
  Nanos deadline = 0;  // local clock: how long to wait for the engine's threads
};

// For the engine, at once.
struct EngineStart {
  Nanos t0_fleet = 0;
};
struct EngineStopAfter {
  int64_t interval = 0;
};
struct EngineAbort {};

struct SetLease {
  Nanos end = 0;  // local clock; workers submit nothing after it
};
struct SetClock {
  ClockEstimate estimate;
};
struct Note {
  LogLevel level = LogLevel::kInfo;
  std::string text;
};
// Last action. `clean` false: something is stuck; do not wait for its threads.
struct Exit {
  int code = 0;
  bool clean = true;
};

using Action = std::variant<Dial, OpenReports, CloseLink, Say, SendReport, DoAttach, DoInspect, DoDetach, DoPrepare,
                            DoRelease, EngineStart, EngineStopAfter, EngineAbort, SetLease, SetClock, Note, Exit>;

}  // namespace muster::agent
