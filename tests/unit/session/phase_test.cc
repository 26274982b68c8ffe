// A phase from Prepare to its last acknowledgement, and every way it can go wrong.
#include "tests/unit/session/rig.h"

namespace muster::agent {
namespace {

TEST_CASE("prepare, burst, start, run, end, hand over, next phase") {
  Rig rig;
  rig.ToPreparing();
  rig.Step(PrepareFinished{.status = {}, .memory_bytes = 11, .facts = {{"f", "1"}}});
  CHECK(rig.Said<PrepareDone>() == nullptr);  // the clock burst comes first
  int probes = 0;
  while (rig.Said<Beat>() && probes < 100) {
    rig.now += 50 * kMicrosecond;
    rig.AnswerBeat();
    ++probes;
  }
  CHECK(probes == 16);
  REQUIRE(rig.Said<PrepareDone>() != nullptr);
  CHECK(rig.Said<PrepareDone>()->status.ok());
  CHECK(rig.Said<PrepareDone>()->memory_bytes == 11);
  CHECK(rig.Said<PrepareDone>()->facts.size() == 1);

  rig.Tell(rig.StartIn(500 * kMillisecond));
  REQUIRE(rig.Said<StartDone>() != nullptr);
  const StartDone started = *rig.Said<StartDone>();
  CHECK_FALSE(started.missed);
  CHECK(started.local_t0 + started.offset == rig.now + rig.fleet_ahead + 500 * kMillisecond);
  CHECK(started.error > 0);
  REQUIRE(rig.Did<EngineStart>() != nullptr);
  CHECK(rig.Did<EngineStart>()->t0_fleet == rig.now + rig.fleet_ahead + 500 * kMillisecond);
  const Nanos t0 = started.local_t0;
  rig.Live(t0 - rig.now);
  CHECK(rig.machine.state() == State::kRunning);

  rig.Step(EngineFirstIo{.engine = rig.engine, .local = t0 + 40, .wake_lateness = 30});
  REQUIRE(rig.Said<FirstIo>() != nullptr);
  CHECK(rig.Said<FirstIo>()->fleet - rig.Said<FirstIo>()->local == started.offset);
  for (int k = 0; k < 5; ++k) {
    rig.Live(kSecond);
    IntervalDelta delta;
    delta.interval = k;
    rig.Step(EngineInterval{.engine = rig.engine, .delta = delta});
    REQUIRE(rig.Did<SendReport>() != nullptr);
    CHECK(rig.Did<SendReport>()->report->sequence == static_cast<uint64_t>(k + 1));
  }
  CHECK(rig.machine.state() == State::kDraining);  // past the last edge
  rig.Step(EngineHeld{.engine = rig.engine, .held = {.initiator = 1, .last_interval = 4, .intervals = 5}});
  REQUIRE(rig.Did<SendReport>() != nullptr);
  CHECK(rig.Did<SendReport>()->report->sequence == 6);
  CHECK(std::get<HeldHistograms>(rig.Did<SendReport>()->report->body).intervals == 5);
  rig.fleet_ahead += 300;  // the clocks have drifted a little
  rig.Live(2 * kSecond);
  rig.Step(EngineEnded{.engine = rig.engine, .totals = {.last_interval = 4}, .status = {}});
  CHECK(rig.Ended() == nullptr);  // its threads are joined first
  rig.Step(ReleaseFinished{.joined = true});
  REQUIRE(rig.Ended() != nullptr);
  CHECK(rig.Ended()->status.ok());
  CHECK(rig.Ended()->totals.last_sequence == 7);
  CHECK(rig.Ended()->totals.last_interval == 4);
  CHECK(rig.Ended()->error_at_start > 0);
  CHECK(rig.machine.state() == State::kHandingOver);

  rig.Step(AckArrived{.link = rig.link, .committed = 6});
  CHECK(rig.machine.state() == State::kHandingOver);
  rig.Step(AckArrived{.link = rig.link, .committed = 7});
  CHECK(rig.machine.state() == State::kAttached);
  rig.Tell(Rig::PrepareOf(1));
  CHECK(rig.machine.state() == State::kPreparing);
}

TEST_CASE("drift is the difference of the offsets at start and end") {
  Rig rig;
  rig.ToRunning();
  rig.fleet_ahead += 5 * kMicrosecond;
  rig.Live(2 * kSecond);
  rig.Tell(Rig::StopNow());
  rig.EndEngine();
  REQUIRE(rig.Ended() != nullptr);
  CHECK(rig.Ended()->offset_at_end - rig.Ended()->offset_at_start == 5 * kMicrosecond);
}

TEST_CASE("a prepare that fails says so and leaves the target attached") {
  Rig rig;
  rig.ToPreparing();
  rig.Step(PrepareFinished{.status = MakeError(absl::StatusCode::kResourceExhausted, {"BUFFER_MEMORY", "", "", ""})});
  REQUIRE(rig.Said<PrepareDone>() != nullptr);
  CHECK(GetErrorInfo(rig.Said<PrepareDone>()->status).code == "BUFFER_MEMORY");
  CHECK(rig.machine.state() == State::kAttached);
  rig.Tell(Rig::PrepareOf(0, 1));
  CHECK(rig.machine.state() == State::kPreparing);
}

TEST_CASE("unanswered probes end the burst, but a clock never known fails it") {
  Rig rig;
  rig.ToPreparing();
  rig.Step(PrepareFinished{});
  rig.Advance(rig.options.deadlines.burst);
  REQUIRE(rig.Said<PrepareDone>() != nullptr);  // earlier Beats suffice, the bound says how well
  CHECK(rig.Said<PrepareDone>()->status.ok());

  Rig deaf;
  deaf.ToGreeting();
  deaf.Tell(Rig::Welcome());
  deaf.Tell(Rig::AttachOf());
  deaf.Step(AttachFinished{});
  deaf.Tell(Rig::PrepareOf());
  deaf.Step(PrepareFinished{});
  deaf.Advance(deaf.options.deadlines.burst);
  CHECK(deaf.Did<EngineAbort>() != nullptr);
  REQUIRE(deaf.Did<DoRelease>() != nullptr);
  deaf.Step(ReleaseFinished{});
  REQUIRE(deaf.Said<PrepareDone>() != nullptr);
  CHECK(GetErrorInfo(deaf.Said<PrepareDone>()->status).code == "CLOCK_UNKNOWN");
}

TEST_CASE("keys: what is stale is refused naming both") {
  Rig rig;
  rig.ToHandingOver();
  rig.Step(AckArrived{.link = rig.link, .committed = rig.machine.log().last_sequence()});
  REQUIRE(rig.machine.state() == State::kAttached);
  rig.Tell(Rig::PrepareOf(0, 0));  // the attempt that has ended
  CHECK(rig.RefusalCode() == "MESSAGE_STALE");
  const std::string text = GetErrorInfo(rig.Said<Refused>()->status).message;
  CHECK(text.find("names run r1 step 1 measure attempt 0") != std::string::npos);
  CHECK(text.find("at run r1 step 1 measure attempt 0") != std::string::npos);
  Prepare other = Rig::PrepareOf(5);
  other.spec.key.run = "r2";
  rig.Tell(other);
  CHECK(rig.RefusalCode() == "MESSAGE_STALE");
  Attach attach = Rig::AttachOf("u", 3);
  attach.key.run = "r0";
  rig.Tell(attach);
  CHECK(rig.RefusalCode() == "MESSAGE_STALE");
  rig.Tell(Rig::AttachOf("u", 0));
  CHECK(rig.RefusalCode() == "MESSAGE_STALE");
  rig.Tell(Rig::AttachOf("t", 3));
  CHECK(rig.RefusalCode() == "MESSAGE_OUT_OF_ORDER");  // attached already
  Detach detach = Rig::DetachAll();
  detach.key.run = "r0";
  rig.Tell(detach);
  CHECK(rig.RefusalCode() == "MESSAGE_STALE");
  CHECK(rig.machine.state() == State::kAttached);
  rig.Tell(Rig::PrepareOf(0, 1));
  CHECK(rig.machine.state() == State::kPreparing);
}

TEST_CASE("a start or stop of another phase is stale") {
  Rig rig;
  rig.ToPrepared();
  Start start = rig.StartIn(kSecond);
  start.key.attempt = 1;
  rig.Tell(start);
  CHECK(rig.RefusalCode() == "MESSAGE_STALE");
  Stop stop = Rig::StopNow();
  stop.key.step = 3;
  rig.Tell(stop);
  CHECK(rig.RefusalCode() == "MESSAGE_STALE");
  CHECK(rig.machine.state() == State::kPrepared);
}

TEST_CASE("a target that is not attached cannot be prepared") {
  Rig rig;
  rig.ToAttached();
  Prepare prepare = Rig::PrepareOf();
  prepare.spec.target = "other";
  rig.Tell(prepare);
  CHECK(rig.RefusalCode() == "TARGET_NOT_ATTACHED");
  CHECK(rig.machine.state() == State::kAttached);
}

TEST_CASE("a start instant in the past is missed; the phase stays prepared and can be stopped or started") {
  Rig rig;
  rig.ToPrepared();
  rig.Tell(rig.StartIn(-1));
  REQUIRE(rig.Said<StartDone>() != nullptr);
  CHECK(rig.Said<StartDone>()->missed);
  CHECK(rig.Did<EngineStart>() == nullptr);
  CHECK(rig.machine.state() == State::kPrepared);
  rig.Tell(rig.StartIn(kSecond));
  CHECK_FALSE(rig.Said<StartDone>()->missed);
  CHECK(rig.machine.state() == State::kArmed);
  rig.Tell(rig.StartIn(2 * kSecond));  // a second Start
  CHECK(rig.RefusalCode() == "MESSAGE_OUT_OF_ORDER");
  CHECK(rig.Did<EngineStart>() == nullptr);
}

TEST_CASE("a start instant beyond the prepared deadline is refused") {
  Rig rig;
  rig.ToPrepared();
  rig.Tell(rig.StartIn(kMinute));
  CHECK(rig.RefusalCode() == "MESSAGE_INVALID");
  CHECK(rig.machine.state() == State::kPrepared);
}

TEST_CASE("a missed start that is stopped ends with zero totals, then the next attempt begins at once") {
  Rig rig;
  rig.ToPrepared();
  rig.Tell(rig.StartIn(-1));
  rig.Tell(Rig::StopNow());
  CHECK(rig.Did<EngineAbort>() != nullptr);
  rig.EndEngine();
  REQUIRE(rig.Ended() != nullptr);
  CHECK(rig.Ended()->status.ok());
  CHECK(rig.machine.state() == State::kHandingOver);
  rig.Tell(Rig::PrepareOf(0, 1));  // before the acknowledgement
  CHECK(rig.machine.state() == State::kPreparing);
  rig.Step(AckArrived{.link = rig.link, .committed = 1});
  CHECK(rig.machine.state() == State::kPreparing);
}

TEST_CASE("a stop that crossed the end of its phase is no error") {
  Rig rig;
  rig.ToHandingOver();
  rig.Tell(Rig::StopNow());
  CHECK(rig.last.empty());
  rig.Step(AckArrived{.link = rig.link, .committed = rig.machine.log().last_sequence()});
  rig.Tell(Rig::StopNow());
  CHECK(rig.last.empty());
  CHECK(rig.machine.state() == State::kAttached);
}

TEST_CASE("stop while preparing is answered by PrepareDone with an error") {
  Rig rig;
  rig.ToPreparing();
  rig.Tell(Rig::StopNow());
  CHECK(rig.Did<DoRelease>() == nullptr);  // the work thread is still at it
  rig.Step(PrepareFinished{});
  CHECK(rig.Did<EngineAbort>() != nullptr);
  REQUIRE(rig.Did<DoRelease>() != nullptr);
  rig.Step(EngineEnded{.engine = rig.engine});  // says an engine that was never started
  CHECK(rig.last.empty());
  rig.Step(ReleaseFinished{});
  REQUIRE(rig.Said<PrepareDone>() != nullptr);
  CHECK(GetErrorInfo(rig.Said<PrepareDone>()->status).code == "STOPPED");
  CHECK(rig.machine.state() == State::kAttached);
  CHECK(rig.machine.log().empty());
}

TEST_CASE("stop after an interval lowers the last edge, never below the current one") {
  Rig rig;
  rig.ToRunning();
  const Nanos t0 = rig.now;
  rig.Live(1'500 * kMillisecond);
  Stop stop{.key = Rig::Key(PhaseKind::kMeasure), .now = false, .after_interval = 2};
  rig.Tell(stop);
  REQUIRE(rig.Did<EngineStopAfter>() != nullptr);
  CHECK(rig.Did<EngineStopAfter>()->interval == 2);
  CHECK(rig.machine.state() == State::kRunning);
  rig.Live(t0 + 3 * kSecond - rig.now - 1);
  CHECK(rig.machine.state() == State::kRunning);
  rig.Live(1);
  CHECK(rig.machine.state() == State::kDraining);

  Rig late;
  late.ToRunning();
  const Nanos began = late.now;
  late.Live(1'500 * kMillisecond);
  stop.after_interval = 0;
  late.Tell(stop);
  late.Live(began + 2 * kSecond - late.now);
  CHECK(late.machine.state() == State::kDraining);
}

TEST_CASE("no Start within the deadline ends the phase with a typed error") {
  Rig rig;
  rig.ToPrepared();
  rig.Live(rig.options.deadlines.prepared_to_start);
  CHECK(rig.machine.state() == State::kDraining);
  rig.EndEngine();
  REQUIRE(rig.Ended() != nullptr);
  CHECK(GetErrorInfo(rig.Ended()->status).code == "START_TIMEOUT");
}

TEST_CASE("a running phase without a sign of life is aborted after op timeout + slack") {
  Rig rig;
  Prepare prepare = Rig::PrepareOf();
  std::get<MeasureSpec>(prepare.spec.work).window_intervals = 1'000;
  rig.ToPrepared(prepare);
  rig.Tell(rig.StartIn(kSecond));
  rig.Live(kSecond);
  rig.Live(60 * kSecond);
  rig.Step(EngineInterval{.engine = rig.engine, .delta = {}});
  rig.Live(95 * kSecond);
  CHECK(rig.machine.state() == State::kRunning);
  rig.Live(kSecond);
  CHECK(rig.machine.state() == State::kDraining);
  rig.EndEngine();
  CHECK(GetErrorInfo(rig.Ended()->status).code == "NO_PROGRESS");
}

TEST_CASE("a fill moves when bytes do, not when empty intervals come") {
  Rig rig;
  rig.ToPrepared(Rig::FillOf());
  Start start = rig.StartIn(kSecond);
  start.key.phase = PhaseKind::kFill;
  rig.Tell(start);
  rig.Live(kSecond);
  rig.Step(EngineProgress{.engine = rig.engine, .bytes_done = 1, .bytes_total = 100});
  REQUIRE(rig.Said<Progress>() != nullptr);
  CHECK(rig.Said<Progress>()->bytes_total == 100);
  for (int i = 0; i < 96; ++i) {
    rig.Live(kSecond);
    rig.Step(EngineInterval{.engine = rig.engine, .delta = {}});
    rig.Step(EngineProgress{.engine = rig.engine, .bytes_done = 1, .bytes_total = 100});
  }
  CHECK(rig.machine.state() == State::kDraining);
}

TEST_CASE("a fill that could not write reports the engine's error") {
  Rig rig;
  rig.ToPrepared(Rig::FillOf());
  Start start = rig.StartIn(kSecond);
  start.key.phase = PhaseKind::kFill;
  rig.Tell(start);
  rig.Live(kSecond);
  rig.EndEngine(MakeError(absl::StatusCode::kResourceExhausted, {"NO_SPACE", "data offset 4096", "full", ""}));
  CHECK(GetErrorInfo(rig.Ended()->status).code == "NO_SPACE");
}

TEST_CASE("an engine that does not end poisons the agent until its threads come back") {
  Rig rig;
  rig.ToDraining();
  const auto& d = rig.options.deadlines;
  rig.Live(90 * kSecond + d.drain_slack + d.drain_grace);
  CHECK(rig.machine.state() == State::kPoisoned);
  CHECK(rig.machine.poison().find("target t") != std::string::npos);
  CHECK(rig.machine.log().size() == 1);
  rig.Tell(Rig::PrepareOf(1));
  CHECK(rig.RefusalCode() == "AGENT_POISONED");
  CHECK(GetErrorInfo(rig.Said<Refused>()->status).message.find("target t") != std::string::npos);
  rig.Tell(Rig::DetachAll());
  REQUIRE(rig.Said<DetachDone>() != nullptr);
  CHECK(GetErrorInfo(rig.Said<DetachDone>()->status).code == "AGENT_POISONED");
  rig.Live(2 * kSecond);  // asked again every second
  rig.Step(ReleaseFinished{.joined = false});
  CHECK(rig.machine.state() == State::kPoisoned);
  rig.Live(1'100 * kMillisecond);
  rig.Step(ReleaseFinished{.joined = true});
  REQUIRE(rig.Did<DoDetach>() != nullptr);  // it was asked for meanwhile
  rig.Step(DetachFinished{});
  CHECK(rig.machine.poison().empty());
  rig.Step(AckArrived{.link = rig.link, .committed = rig.machine.log().last_sequence()});
  CHECK(rig.machine.state() == State::kIdle);
}

TEST_CASE("abandoned operations poison for good: their return cannot be seen") {
  Rig rig;
  rig.ToDraining();
  rig.Step(EngineEnded{.engine = rig.engine, .totals = {.poisoned = true}, .status = {}});
  rig.Step(ReleaseFinished{.joined = true});
  REQUIRE(rig.Ended() != nullptr);
  CHECK(rig.Ended()->totals.poisoned);
  CHECK(rig.machine.state() == State::kPoisoned);
  rig.Live(kMinute);
  CHECK(rig.machine.state() == State::kPoisoned);
  rig.Step(ShutdownAsked{"signal"});
  REQUIRE(rig.Did<Exit>() != nullptr);
  CHECK_FALSE(rig.Did<Exit>()->clean);
}

TEST_CASE("an attach that hangs is answered for; what it attached late is released") {
  Rig rig;
  rig.ToAttaching();
  rig.Tell(Rig::DetachAll());  // queued behind the attach
  CHECK(rig.Said<DetachDone>() == nullptr);
  rig.Live(60 * kSecond - 1);
  CHECK(rig.machine.state() == State::kAttaching);
  rig.Advance(1);
  REQUIRE(rig.Said<AttachDone>() != nullptr);
  CHECK(GetErrorInfo(rig.Said<AttachDone>()->status).code == "ATTACH_TIMEOUT");
  CHECK(rig.Said<DetachDone>() != nullptr);
  CHECK(rig.machine.state() == State::kPoisoned);
  rig.Tell(Rig::AttachOf());
  CHECK(rig.RefusalCode() == "AGENT_POISONED");
  rig.Step(AttachFinished{});
  REQUIRE(rig.Did<DoDetach>() != nullptr);
  rig.Step(DetachFinished{});
  CHECK(rig.machine.state() == State::kIdle);
}

TEST_CASE("a detach that overtakes the end of an attach is done after it") {
  Rig rig;
  rig.ToAttaching();
  rig.Tell(Rig::DetachAll());
  rig.Step(AttachFinished{});
  CHECK(rig.Said<AttachDone>() != nullptr);
  CHECK(rig.Did<DoDetach>() != nullptr);
  rig.Step(DetachFinished{});
  REQUIRE(rig.Said<DetachDone>() != nullptr);
  CHECK(rig.Said<DetachDone>()->status.ok());
  CHECK(rig.machine.state() == State::kIdle);
}

TEST_CASE("a failed attach leaves nothing; detach of nothing is fine") {
  Rig rig;
  rig.ToAttaching();
  rig.Step(AttachFinished{.status = MakeError(absl::StatusCode::kFailedPrecondition, {"TARGET_MOUNTED", "", "", ""})});
  CHECK(GetErrorInfo(rig.Said<AttachDone>()->status).code == "TARGET_MOUNTED");
  CHECK(rig.machine.state() == State::kIdle);
  rig.Tell(Rig::DetachAll());
  REQUIRE(rig.Said<DetachDone>() != nullptr);
  CHECK(rig.Said<DetachDone>()->status.ok());
  CHECK(rig.Did<DoDetach>() == nullptr);
}

TEST_CASE("one of several targets is released by name") {
  Rig rig;
  rig.ToAttached();
  rig.Tell(Rig::AttachOf("u", 1));
  rig.Step(AttachFinished{});
  Detach one{.key = Rig::Key(PhaseKind::kDetach, 1), .all = false, .target = "t"};
  rig.Tell(one);
  REQUIRE(rig.Did<DoDetach>() != nullptr);
  CHECK_FALSE(rig.Did<DoDetach>()->all);
  rig.Step(DetachFinished{});
  CHECK(rig.machine.state() == State::kAttached);
  rig.Tell(one);
  CHECK(GetErrorInfo(rig.Said<DetachDone>()->status).code == "TARGET_NOT_ATTACHED");
}

TEST_CASE("inspection is answered, also when it hangs") {
  Rig rig;
  rig.ToInspecting();
  rig.Step(InspectFinished{.inspections = {TargetInspection{.target = "x", .writable = true}}});
  REQUIRE(rig.Said<InspectDone>() != nullptr);
  CHECK(rig.Said<InspectDone>()->request == 9);
  CHECK(rig.machine.state() == State::kAttached);

  Rig hung;
  hung.ToInspecting();
  hung.Live(hung.options.deadlines.inspect);
  CHECK(hung.machine.state() == State::kPoisoned);
  hung.Step(InspectFinished{});
  CHECK(hung.machine.state() == State::kAttached);
}

TEST_CASE("a full report log and an overrun end the phase with a typed error, without a hole in what is kept") {
  SessionOptions options = Rig::Defaults();
  options.log.bytes = 3 * MemoryOf(IntervalDelta{});
  Rig rig(options);
  rig.ToRunning();
  for (int k = 0; k < 4; ++k) rig.Step(EngineInterval{.engine = rig.engine, .delta = {.interval = k}});
  CHECK(rig.Did<EngineAbort>() != nullptr);
  rig.Step(AckArrived{.link = rig.link, .committed = 3});                    // room again
  rig.Step(EngineInterval{.engine = rig.engine, .delta = {.interval = 4}});  // but interval 3 is gone
  CHECK(rig.machine.log().last_sequence() == 3);
  rig.EndEngine();
  CHECK(GetErrorInfo(rig.Ended()->status).code == "REPORT_LOG_FULL");

  Rig overrun;
  overrun.ToRunning();
  overrun.Step(EngineOverrun{.engine = overrun.engine});
  CHECK(overrun.Did<EngineAbort>() != nullptr);
  overrun.EndEngine();
  CHECK(GetErrorInfo(overrun.Ended()->status).code == "REPORTS_LOST");
}

TEST_CASE("what an earlier engine says is not heard") {
  Rig rig;
  rig.ToRunning();
  rig.Step(EngineInterval{.engine = rig.engine - 1, .delta = {}});
  rig.Step(EngineEnded{.engine = rig.engine - 1});
  CHECK(rig.machine.state() == State::kRunning);
  CHECK(rig.machine.log().empty());
}

TEST_CASE("acknowledgements that do not come, or cannot be, end the link") {
  Rig rig;
  rig.ToHandingOver();
  rig.Live(rig.options.deadlines.hand_over);
  CHECK_FALSE(rig.machine.link_up());
  CHECK(rig.machine.log().size() == 1);  // kept

  Rig wrong;
  wrong.ToHandingOver();
  wrong.Step(AckArrived{.link = wrong.link, .committed = 99});
  CHECK_FALSE(wrong.machine.link_up());

  Rig refused;
  refused.ToRunning();
  refused.Step(AckArrived{.link = refused.link, .committed = 0, .error = absl::DataLossError("no")});
  CHECK_FALSE(refused.machine.link_up());
  CHECK(refused.machine.state() == State::kDraining);
}

}  // namespace
}  // namespace muster::agent
