#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/session/clock_estimator.h"
#include "agent/session/events.h"
#include "agent/session/report_log.h"
#include "agent/session/states.h"
#include "common/wire/control_log.h"

namespace muster::agent {

// Deadlines, one for every state; all settable.
struct SessionDeadlines {
  Nanos greeting = 10 * kSecond;
  Nanos resume = 2 * kSecond;  // the same while a session goes on: the lease runs, so try again soon
  Nanos inspect = 60 * kSecond;
  Nanos prepared_to_start = 10 * kSecond;
  Nanos drain_slack = 5 * kSecond;  // drain, and a running phase without progress: op timeout + this
  Nanos drain_grace = 2 * kSecond;  // the engine's own drain deadline comes first by this much
  Nanos hand_over = 90 * kSecond;   // acknowledgements
  Nanos detach = 30 * kSecond;
  Nanos release = 5 * kSecond;    // an ended engine's threads
  Nanos burst = 2 * kSecond;      // the clock burst before Prepared
  Nanos shutdown = 30 * kSecond;  // from ShutdownAsked to Exit
  Nanos answer_grace = kSecond;   // prepare: the engine's own deadline comes first by this much
  // Attach and Prepare carry their own.
};

struct SessionOptions {
  Hello hello;        // constant parts; `holds` and `held` are set at each dial
  bool once = false;  // exit when a session has ended
  Nanos beat = kSecond;
  int burst_probes = 16;
  Nanos backoff_first = 100 * kMillisecond;  // doubles with each failure ...
  Nanos backoff_max = 2 * kSecond;           // ... up to this
  Nanos version_retry = kMinute;             // after a refusal for API versions
  SessionDeadlines deadlines;
  ReportLog::Limits log;
};

// An error of the way to the controller.
absl::Status LinkError(std::string code, std::string message);

// One phase that does I/O, from Prepare to its end.
struct SessionPhase {
  PhaseSpec spec;
  uint64_t engine = 0;  // number of its engine
  Nanos local_t0 = 0;
  Nanos last_edge = kNever;  // local instant of the end of the last interval; kNever: none (fill)
  Nanos progress = 0;        // last sign of life of the engine
  uint64_t bytes_done = 0;   // fill
  std::optional<ClockEstimate> at_start;
  Nanos error_at_start = 0;
  absl::Status failure;              // why the session aborted it
  bool ready = false;                // the engine is there; the clock burst may still run
  bool cancelled = false;            // ends before Prepared was answered; `failure` will be the answer
  bool aborted = false;              // EngineAbort was given
  bool lossy = false;                // a delta was dropped; the rest is dropped too
  std::optional<EngineEnded> ended;  // the engine's threads are being joined
  uint64_t memory_bytes = 0;
  Facts facts;
};

// The agent's session with its controller: Step(event, now) -> actions. Pure: no I/O, no thread, no clock of its own.
// Not thread-safe; the driver's session thread owns it.
//
// A command that comes out of order or names another phase is answered by Refused (MESSAGE_OUT_OF_ORDER, MESSAGE_STALE)
// and changes nothing.
//
// A session outlives its link: when the link is lost, or mute for half a lease, the load goes on and the agent dials
// again. What it says meanwhile is kept (ControlLog, ReportLog) and said once the same controller has taken the session
// up again. The session ends when its lease does (it runs from t1 of the last answered Beat), when the controller no
// longer knows it or is another one, or says Goodbye: the phase is aborted and drained, its reports are kept, targets
// are detached, and the agent dials again, offering the reports.
class SessionMachine {
 public:
  explicit SessionMachine(SessionOptions options);

  std::vector<Action> Step(const Event& event, Nanos now);
  // Step(Tick) wants to be called then at the latest. Never kNever but in kStopped.
  Nanos NextDeadline() const;

  State state() const { return state_; }
  const ReportLog& log() const { return log_; }
  Nanos lease_end() const { return lease_end_; }
  const std::string& poison() const { return poison_; }  // empty: not poisoned
  bool link_up() const { return link_up_; }
  bool in_session() const { return session_; }

 private:
  enum class Work : uint8_t { kNone, kAttach, kInspect, kDetach, kPrepare, kRelease };

  // session_machine.cc: dispatch and time; session_link.cc: links, Beats, lease
  void On(const MessageArrived& event);
  void On(const BadMessage& event);
  void On(const AckArrived& event);
  void On(const LinkLost& event);
  void On(const ShutdownAsked& event);
  void On(const Tick& event);
  void OnMessage(const HelloReply& message, Nanos received);
  void OnMessage(const BeatReply& message, Nanos received);
  void OnMessage(const Goodbye& message, Nanos received);
  void CheckTime();
  void CheckLink();
  // A short lease is renewed more often, so that a late answer costs neither the lease nor the link.
  Nanos BeatPeriod() const { return std::min(options_.beat, lease_ / 4); }
  // Half a lease, but never so short that one Beat which is late looks like a link that is mute.
  Nanos MuteAfter() const { return std::max(lease_ / 2, 3 * BeatPeriod()); }
  void SendBeat();
  void DialNow();
  void RetryIn(Nanos delay);
  void RetryWithBackoff();
  void DropLink(const absl::Status& why);    // the link is of no use any more; the session goes on if there is one
  void EndSession(const absl::Status& why);  // with its link, if there is one
  void BeginSession(const HelloReply& message);
  void ResumeSession(const HelloReply& message);
  void LinkUp(uint64_t link_id);
  void LinkOver();
  bool Hear(uint64_t seq);
  void Tell(AgentSays message);  // numbered and kept; nothing outside a session
  void Refuse(const PhaseKey& key, absl::Status status);
  bool CheckKey(const PhaseKey& key, std::string_view message);

  // session_targets.cc: attach, inspect, detach, leaving, poison
  void OnMessage(const Attach& message, Nanos received);
  void OnMessage(const Inspect& message, Nanos received);
  void OnMessage(const Detach& message, Nanos received);
  void On(const AttachFinished& event);
  void On(const InspectFinished& event);
  void On(const DetachFinished& event);
  void On(const ReleaseFinished& event);
  void BeginDetach(std::optional<Detach> asked);
  void WorkOverdue();
  void Leave();  // the link is gone or the process is to end: one step further towards that
  void Left();   // nothing is attached or under way any more (or it is stuck): dial again or exit
  void Rest();   // nothing under way: idle, attached, handing over, poisoned, or further with leaving
  void Poison(std::string why);
  void Unpoison();
  absl::Status PoisonedError() const;

  // session_phase.cc: prepare to end
  void OnMessage(const Prepare& message, Nanos received);
  void OnMessage(const Start& message, Nanos received);
  void OnMessage(const Stop& message, Nanos received);
  void On(const PrepareFinished& event);
  void On(const EngineFirstIo& event);
  void On(const EngineInterval& event);
  void On(const EngineHeld& event);
  void On(const EngineProgress& event);
  void On(const EngineEnded& event);
  void On(const EngineOverrun& event);
  void CheckPhaseTime();
  void MaybePrepared();
  void CancelPrepare(absl::Status why);
  void AnswerPrepare(absl::Status status);
  void Lossy(const absl::Status& why);
  void AbortPhase(const absl::Status& why);  // OK: it was asked to
  void EndPhase(PhaseTotals totals, const absl::Status& status);
  void Release(Nanos wait);
  Nanos RunDeadline() const;
  Nanos DrainAllowed() const;
  void PumpReports();
  bool IsCurrent(uint64_t engine) const { return phase_ && phase_->engine == engine; }

  template <typename T>
  void Do(T action) {
    actions_.emplace_back(std::move(action));
  }
  void Go(State state, Nanos deadline);

  const SessionOptions options_;
  State state_ = State::kDisconnected;
  Nanos deadline_ = 0;  // of the state; kNever where the lease alone bounds it
  Nanos now_ = 0;
  std::vector<Action> actions_;

  // Link
  uint64_t link_ = 0;
  bool session_ = false;  // accepted, and its lease runs
  bool link_up_ = false;  // the session has a link
  bool dialled_ = false;  // a link exists, accepted or not
  Nanos dialled_at_ = 0;
  Nanos redial_at_ = kNever;       // within a session, without a link
  Nanos greeting_until_ = kNever;  // within a session, dialled
  Nanos down_since_ = 0;
  Nanos mute_at_ = kNever;  // within a session, with a link: no Beat has been answered for too long
  ControlLog<AgentSays> control_;
  absl::Status control_full_;
  bool leaving_ = false;
  bool exit_wanted_ = false;
  int exit_code_ = 0;
  Nanos exit_by_ = kNever;
  Nanos backoff_ = 0;
  std::string last_refusal_;
  uint64_t epoch_ = 0;
  Nanos lease_ = 0;
  Nanos lease_end_ = 0;
  ClockEstimator clock_;
  std::optional<ClockEstimate> in_use_;
  Nanos next_beat_ = kNever;
  uint64_t beat_seq_ = 0;
  std::deque<std::pair<uint64_t, Nanos>> unanswered_;  // (seq, t1), oldest first, bounded
  uint64_t answered_seq_ = 0;
  Nanos answered_t4_ = 0;
  int burst_left_ = 0;
  Nanos burst_until_ = kNever;

  // Run
  std::string run_;  // empty while nothing is attached
  std::set<std::string, std::less<>> targets_;
  std::optional<PhaseKey> last_key_;   // of the last Attach or Prepare accepted
  std::optional<PhaseKey> ended_key_;  // of the last phase that has ended
  Nanos hand_over_by_ = kNever;        // its reports are to be committed by then
  std::optional<SessionPhase> phase_;
  uint64_t engines_ = 0;
  ReportLog log_;

  // Work thread
  Work work_ = Work::kNone;
  bool engine_held_ = false;           // an engine exists in the driver
  std::optional<Attach> attaching_;    // to be answered
  std::string late_target_;            // of an attach that was answered for before it returned
  std::optional<Inspect> inspecting_;  // to be answered
  std::optional<Detach> detaching_;    // to be answered; absent while leaving
  std::optional<Detach> owed_detach_;  // came while attaching
  bool detach_when_free_ = false;      // targets are to be released once the poison is gone
  std::string poison_;
  bool poisoned_for_good_ = false;  // abandoned operations: only the end of the process ends them for certain
  Nanos next_release_ = kNever;
};

}  // namespace muster::agent
