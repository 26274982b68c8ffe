#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "agent/target/target.h"
#include "common/plan/plan.h"
#include "common/stats/held_histograms.h"
#include "common/stats/op_stats.h"

// What travels between agent and controller, as plain structs: the session knows these alone; agent/link turns them
// into proto/muster/v1/agent_link.proto and back. Field meanings are those of the messages of the same name there.
namespace muster::agent {

using Facts = std::vector<std::pair<std::string, std::string>>;

// ---- Controller -> agent

struct HelloReply {
  absl::Status error;  // not OK: refused
  uint32_t api = 0;
  std::string build;
  uint64_t controller_epoch = 0;
  uint64_t link_id = 0;
  Nanos lease = 0;
  uint64_t last_committed = 0;  // of reports
  uint64_t last_received = 0;   // of reports, committed or not
  bool resumed = false;         // the live session of Hello::held goes on
  bool wants_reports = false;   // those held of an ended session are to be handed over
  uint64_t heard = 0;           // resumed: number of the last Control message heard of this agent
};
struct BeatReply {
  uint64_t seq = 0;
  Nanos t1 = 0, t2 = 0, t3 = 0;
  uint64_t heard = 0;      // number of the last Control message heard of this agent
  uint64_t committed = 0;  // of reports: an acknowledgement may have been lost with its link
};
struct Attach {
  PhaseKey key;
  AttachRequest request;  // its `run` is the key's
  Nanos allowed = 0;
};
struct InspectItem {
  Target target;
  std::vector<ObjectSpec> objects;
  bool writes = false;
  bool probe = false;
};
struct Inspect {
  uint64_t request = 0;
  std::vector<InspectItem> items;
};
struct Prepare {
  PhaseSpec spec;
  Nanos allowed = 0;
};
struct Start {
  PhaseKey key;
  Nanos t0_fleet = 0;
};
struct Stop {
  PhaseKey key;
  bool now = false;
  int64_t after_interval = 0;
};
struct Detach {
  PhaseKey key;
  bool all = false;
  std::string target;
};
struct Goodbye {
  std::string reason;
};
using ControllerSays = std::variant<HelloReply, BeatReply, Attach, Inspect, Prepare, Start, Stop, Detach, Goodbye>;

// ---- Agent -> controller

struct HeldSession {
  uint64_t controller_epoch = 0;
  PhaseKey key;
  uint64_t last_sequence = 0;
  uint64_t heard = 0;      // number of the last command heard
  bool live = false;       // the lease runs; false: the session has ended, reports alone are held
  uint64_t committed = 0;  // reports after this one are held
};
struct Hello {
  uint32_t api_min = 0, api_max = 0;
  std::string build;
  std::vector<std::string> capabilities;
  std::string agent_id;
  uint64_t instance = 0;
  std::string host_id, boot_id, hostname;
  uint64_t time_namespace = 0;
  Facts host_facts;
  Facts labels;
  bool holds = false;  // `held` means something: a session goes on, or this process has made reports before
  HeldSession held;
};
struct Beat {
  uint64_t seq = 0;
  Nanos t1 = 0;
  uint64_t previous_seq = 0;
  Nanos previous_t4 = 0;
  Nanos offset = 0, error = 0, round_trip = 0;
  uint64_t heard = 0;  // number of the last command heard
};
// Last message: the agent ends the session of its own accord.
struct Leaving {
  absl::Status why;
};
struct AttachDone {
  PhaseKey key;
  std::string target;
  absl::Status status;
  uint64_t generation = 0;
  Facts evidence;
};
struct InspectDone {
  uint64_t request = 0;
  std::vector<TargetInspection> inspections;
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
struct Progress {
  PhaseKey key;
  uint64_t bytes_done = 0, bytes_total = 0;
};
struct DetachDone {
  PhaseKey key;
  absl::Status status;
};
struct Refused {
  PhaseKey key;
  absl::Status status;
};
using AgentSays = std::variant<Beat, AttachDone, InspectDone, PrepareDone, StartDone, FirstIo, Progress, DetachDone,
                               Refused, Leaving>;

// ---- Report stream

struct PhaseEnded {
  PhaseTotals totals;
  absl::Status status;  // not OK: the phase failed here
  Nanos offset_at_start = 0, error_at_start = 0, offset_at_end = 0, error_at_end = 0;
};
struct Report {
  PhaseKey key;
  uint64_t sequence = 0;
  std::variant<IntervalDelta, HeldHistograms, PhaseEnded> body;
};

// "run R step 3 measure attempt 0": steps are counted from 1 for people, as in plan and progress.
std::string KeyText(const PhaseKey& key);
// Within one run: `a` names a later step, phase of a step, or attempt of a phase than `b`.
bool IsAfter(const PhaseKey& a, const PhaseKey& b);

}  // namespace muster::agent
