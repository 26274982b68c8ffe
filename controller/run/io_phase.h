#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "controller/run/phase.h"

namespace muster {

// What fill and measure have in common: the Prepare barrier in parallel, one start instant for all, the run, the end
// at an edge or at once, the drain, and the wait until the store has committed every report.
//
//   [quiet] -> preparing -> starting -> running -> ending -> committing -> done
//                  |            |          |  (a stop was sent: ending)
//                  +-> undoing <+----------+  Stop{now}, wait for every PhaseEnded; then committing, or the barrier
//                         |                   again: a start was missed, or an agent was lost and the run goes on.
//                         +-> quiet
//
// What a lost agent may still do to a target disturbs the figures: no barrier begins until that has run out (quiet).
//
// An agent that does not answer in time is given up (lost): a hung agent never hangs a run.
class IoPhase : public Phase {
 public:
  IoPhase(const muster::Step& step, PhaseKind kind, Facts& facts) : step_(step), kind_(kind), facts_(facts) {}

  void Begin(RunContext& ctx) override;
  void OnMessage(RunContext& ctx, FleetAgent& agent, const AgentSays& says) override;
  absl::Status OnReport(RunContext& ctx, FleetAgent& agent, const AgentReport& report) override;
  absl::Status OnLateReport(RunContext& ctx, FleetAgent& agent, const AgentReport& report) override;
  void OnLost(RunContext& ctx, FleetAgent& agent) override;
  void OnCancel(RunContext& ctx, int level) override;
  void OnStoreFailed(RunContext& ctx) override;
  void OnTime(RunContext& ctx) override;
  Nanos Deadline(const RunContext& ctx) const override;

  const PhaseKey& key() const { return key_; }  // of the last attempt
  uint32_t restarts() const { return restarts_; }
  // Latest minus earliest first I/O in fleet time; 0 until two agents have said theirs.
  Nanos StartSkew() const;
  Nanos ClockError() const;
  // Earliest first I/O, or the start instant.
  Nanos FirstIoAt() const;
  // A start instant was accepted by every participant of an attempt: before that there is nothing to judge.
  bool started() const { return started_; }

 protected:
  enum class Stage : uint8_t { kAsked, kPrepared, kArmed, kMissed, kEnded, kFailed, kLost };
  enum class State : uint8_t { kPreparing, kStarting, kRunning, kEnding, kUndoing, kQuiet, kCommitting, kDone };
  static constexpr uint32_t kMaxRestarts = 2;  // of a window after losses

  struct Part {
    FleetAgent* agent = nullptr;
    PhaseSpec spec;  // key and all; set once by Participants
    Stage stage = Stage::kAsked;
    int64_t next_interval = 0;  // the one awaited
    uint64_t bytes_done = 0, bytes_asked = 0;
    uint64_t written = 0;  // fill: by its totals
    Nanos heard = 0;       // last progress
    bool silent = false;
    std::optional<PrepareDone> prepared;
    std::optional<StartDone> start;
    std::optional<FirstIo> first_io;
    std::optional<PhaseEnded> ended;
    bool over() const { return stage == Stage::kEnded || stage == Stage::kFailed || stage == Stage::kLost; }
  };

  // Who takes part, with what is theirs. Called once.
  virtual std::vector<Part> Participants(RunContext& ctx) = 0;
  // An agent was lost and the run goes on: before the next attempt. Leaves in `parts_` who takes part in that one.
  virtual void OnFewer(RunContext& ctx) = 0;
  // A loss makes the figures of the others worthless: they stop and begin anew. False: they finish what is theirs.
  virtual bool RestartsOnLoss() const = 0;
  // All have ended as planned, the lost ones apart: another attempt is needed for what those left undone.
  virtual bool LeftUndone(const RunContext& ctx) const = 0;
  virtual void OnAttempt(RunContext& ctx) = 0;  // an attempt begins: forget what an earlier one delivered
  virtual absl::Status OnInterval(RunContext& ctx, Part& part, const IntervalDelta& delta) = 0;
  virtual absl::Status OnHeld(Part& part, const HeldHistograms& held) = 0;
  virtual absl::Status OnTotals(RunContext& ctx, Part& part, const PhaseEnded& ended) = 0;
  virtual absl::Status OnLateTotals(Part& part, const PhaseEnded& ended) = 0;  // of an agent that is lost
  virtual void OnGivenUp(Part& part) = 0;                                      // the agent delivers nothing more
  virtual void OnFillReport(RunContext& ctx, Part& part, const FillReport& progress) = 0;
  // While it runs: the next instant at which CheckRunning has something to decide of this agent.
  virtual Nanos RunDeadline(const RunContext& ctx, const Part& part) const = 0;
  virtual void CheckRunning(RunContext& ctx, Part& part) = 0;

  void GiveUp(RunContext& ctx, Part& part, absl::Status why);
  // Ends the run of the phase: at the edge after the current interval, or at once.
  void StopAll(RunContext& ctx, bool now);
  int64_t CurrentInterval(const RunContext& ctx) const;
  // When the load ends: the edge of the last interval, or the instant it was stopped at once.
  Nanos EndAt() const { return stopped_now_at_ != kNever ? stopped_now_at_ : EdgeAfter(last_interval_); }
  bool stopped() const { return state_ == State::kEnding || state_ == State::kUndoing; }
  void Fail(RunContext& ctx, absl::Status status);
  // After Blame: whatever ends the phase early in this state.
  void EndEarly(RunContext& ctx, bool now);
  // Reports come late by this much before anybody is called silent.
  Nanos Grace(const RunContext& ctx) const { return ctx.options.deadlines.silent_grace + 3 * step_interval_; }
  Nanos EdgeAfter(int64_t interval) const { return t0_ + (interval + 1) * step_interval_; }

  const muster::Step& step_;
  std::vector<Part> parts_;
  State state_ = State::kPreparing;
  Nanos t0_ = 0;
  int64_t last_interval_ = INT64_MAX;  // by plan or Stop
  Nanos step_interval_ = kSecond;

 private:
  Part* Find(const FleetAgent& agent);
  absl::Status MergeLate(RunContext& ctx, Part& part, const AgentReport& report);
  void Ask(RunContext& ctx);
  void AwaitQuiet(RunContext& ctx);
  void Arm(RunContext& ctx);
  void Undo(RunContext& ctx);
  void Repeat(RunContext& ctx);   // the attempt is over: another one, as soon as the target is quiet
  void Advance(RunContext& ctx);  // leaves a state whose condition is met
  void OnPrepared(RunContext& ctx, Part& part, const PrepareDone& done);
  void OnStarted(RunContext& ctx, Part& part, const StartDone& done);
  void OnRefused(RunContext& ctx, Part& part, const Refused& refused);
  void Settle();  // load and drain are over: notes the facts, waits for the store

  const PhaseKind kind_;
  Facts& facts_;
  PhaseKey key_;
  uint32_t attempt_ = 0;
  uint32_t missed_ = 0;    // starts in a row
  uint32_t restarts_ = 0;  // after losses while running
  bool fewer_ = false;     // an agent was lost since the attempt at hand was asked for
  bool started_ = false;
  Nanos deadline_ = 0;  // of preparing, starting and undoing
  Nanos stopped_now_at_ = kNever;
};

}  // namespace muster
