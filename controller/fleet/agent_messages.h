#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "common/plan/labels.h"
#include "common/plan/plan.h"
#include "common/plan/target_probe.h"
#include "common/stats/held_histograms.h"
#include "common/stats/op_stats.h"

// What travels between controller and agent, as plain structs: the run state machine, its simulation and the driver
// know these alone; link_codec turns them into proto/muster/v1/agent_link.proto and back.
namespace muster {

using Facts = std::vector<std::pair<std::string, std::string>>;

// ---- Agent -> controller

// First message of an agent.
struct HelloInfo {
  uint32_t api_min = 0, api_max = 0;
  std::string build;
  std::vector<std::string> capabilities;
  std::string agent_id;
  uint64_t instance = 0;  // random number of the agent's process
  std::string host_id, boot_id, hostname;
  uint64_t time_namespace = 0;
  Facts host_facts;
  Labels labels;
  uint64_t last_sequence = 0;  // of the last report this process has made; numbers are never used again
  bool insecure_tcp = false;   // as the controller saw it: neither a Unix socket nor TLS
  // The session it still holds; epoch 0: none.
  uint64_t held_epoch = 0;
  bool held_live = false;       // its lease runs and its load goes on; false: it has ended, reports alone are held
  uint64_t held_heard = 0;      // live: number of the last command heard
  std::string held_run;         // whose reports it holds
  uint64_t held_committed = 0;  // it holds those after this one
};

struct BeatInfo {
  uint64_t seq = 0;
  Nanos t1 = 0;  // agent clock at send
  uint64_t previous_seq = 0;
  Nanos previous_t4 = 0;                        // agent clock at receipt of the answer to `previous_seq`; 0: none yet
  Nanos offset = 0, error = 0, round_trip = 0;  // the agent's own estimate
  uint64_t heard = 0;                           // number of the last command heard
};

// What the controller knows of an agent's clock: fleet (controller) clock minus agent clock.
struct ClockReading {
  Nanos offset = 0;
  Nanos error = kNever;  // bound of the offset; kNever: no probe yet
  Nanos round_trip = 0;  // worst of the last 64 probes
};

struct AttachDone {
  PhaseKey key;
  std::string target;
  absl::Status status;
  uint64_t generation = 0;
  Facts evidence;
};
struct PrepareDone {
  PhaseKey key;
  absl::Status status;
  uint64_t memory_bytes = 0;
  Facts facts;
};
struct StartDone {
  PhaseKey key;
  bool missed = false;
  Nanos offset = 0, error = 0, local_t0 = 0;
};
struct FirstIo {
  PhaseKey key;
  Nanos local = 0, fleet = 0, wake_lateness = 0;
};
struct FillReport {
  PhaseKey key;
  uint64_t bytes_done = 0, bytes_total = 0;
};
struct DetachDone {
  PhaseKey key;
  absl::Status status;
};
// A command was not accepted.
struct Refused {
  PhaseKey key;
  absl::Status status;
};
struct InspectionInfo {
  std::string target, place, identity, found, verdict, would_write;
  uint64_t size = 0;
  bool writable = false;
  absl::Status refusal;
  std::vector<std::string> notes;
  std::optional<TargetProbe> probe;
};
struct InspectDone {
  uint64_t request = 0;
  std::vector<InspectionInfo> inspections;
};
struct PhaseEnded {
  PhaseTotals totals;
  absl::Status status;  // not OK: the phase failed on this agent
  Nanos offset_at_start = 0, error_at_start = 0, offset_at_end = 0, error_at_end = 0;
};
// One message of the Report stream.
struct AgentReport {
  PhaseKey key;
  uint64_t sequence = 0;
  std::variant<IntervalDelta, HeldHistograms, PhaseEnded> body;
  std::string bytes;  // as it came, for the store's log
};
// A Beat has changed what is known of the agent's clock.
struct ClockNews {
  ClockReading reading;
};
// The link broke; the lease runs on and with it the load.
struct LinkDown {
  absl::Status why;
};
// The same process is back within its lease: nothing was lost, nothing comes twice.
struct LinkBack {
  Nanos down = 0;
  uint64_t reports = 0;  // that it has made and the controller has not received
};
// A process whose session had ended is back: not in the run any more, but its reports come.
struct AgentReturned {
  uint64_t reports = 0;
};
// The agent is lost: its lease ended, another process has its id, it left, was dropped, or sent what it must not. The
// last event of a session; AgentReturned and reports may follow.
struct AgentGone {
  absl::Status why;
};

using AgentSays = std::variant<AttachDone, PrepareDone, StartDone, FirstIo, FillReport, DetachDone, Refused,
                               InspectDone, AgentReport, ClockNews, LinkDown, LinkBack, AgentReturned, AgentGone>;

struct AgentEvent {
  std::string agent;
  AgentSays says;
  // Held while the event is in somebody's hands: a link reads on only when few of its tickets are out, which bounds
  // every queue behind it. Dropping the last copy may restart reading; safe on any thread.
  std::shared_ptr<void> ticket;
};

// ---- Controller -> agent

struct AttachCommand {
  PhaseKey key;
  Target target;
  std::vector<ObjectSpec> objects;
  bool writes = false;
  bool guard = false;
  uint64_t generation = 0;
  uint64_t min_block = 4096;
  Nanos deadline = 0;  // time allowed
};
struct PrepareCommand {
  PhaseSpec spec;
  Nanos deadline = 0;  // time allowed
};
struct StartCommand {
  PhaseKey key;
  Nanos t0_fleet = 0;
};
struct StopCommand {
  PhaseKey key;
  bool now = false;
  int64_t after_interval = 0;
};
struct DetachCommand {
  PhaseKey key;
  bool all = true;
  std::string target;
};
struct InspectItem {
  Target target;
  std::vector<ObjectSpec> objects;
  bool writes = false;
  bool probe = false;
};
struct InspectCommand {
  uint64_t request = 0;
  std::vector<InspectItem> items;
};

using AgentCommand =
    std::variant<AttachCommand, PrepareCommand, StartCommand, StopCommand, DetachCommand, InspectCommand>;

}  // namespace muster
