#include "tests/integration/controller/scripted_agent.h"

#include <algorithm>
#include <chrono>

#include "common/base/status.h"
#include "common/stats/op_stats.h"
#include "common/wire/codec.h"

namespace muster::test {
namespace {

Nanos Now() {
  return SteadyClock::Get().Now();
}

v1::Error TestError(const char* code, const char* message) {
  return ToProto(
      MakeError(absl::StatusCode::kInternal, {.code = code, .place = "the script", .message = message, .next = {}}));
}

}  // namespace

ScriptedAgent::ScriptedAgent(const std::string& socket, Options options) : options_(std::move(options)) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  channel_ = grpc::CreateCustomChannel("unix:" + socket, grpc::InsecureChannelCredentials(), arguments);
  stub_ = v1::AgentLink::NewStub(channel_);
}

ScriptedAgent::~ScriptedAgent() {
  Vanish();
  for (std::thread* thread : {&control_reader_, &ack_reader_, &beater_, &phase_}) {
    if (thread->joinable()) thread->join();
  }
}

void ScriptedAgent::Vanish() {
  {
    std::lock_guard lock(mutex_);
    gone_ = true;
  }
  changed_.notify_all();
  control_context_.TryCancel();
  report_context_.TryCancel();
}

v1::HelloReply ScriptedAgent::Connect() {
  control_ = stub_->Control(&control_context_);
  v1::AgentMessage first;
  v1::Hello& hello = *first.mutable_hello();
  hello.set_api_min(options_.api_min);
  hello.set_api_max(options_.api_max);
  hello.set_build(options_.build);
  hello.add_capabilities("null");
  hello.set_agent_id(options_.id);
  hello.set_instance(options_.instance != 0 ? options_.instance : reinterpret_cast<uintptr_t>(this));
  hello.set_host_id(options_.hostname);
  hello.set_hostname(options_.hostname);
  hello.set_boot_id("boot of " + options_.hostname);
  v1::ControllerMessage answer;
  if (!control_->Write(first) || !control_->Read(&answer) || !answer.has_hello_reply()) {
    v1::HelloReply broken;
    *broken.mutable_error() = ToProto(absl::UnavailableError(control_->Finish().error_message()));
    return broken;
  }
  if (answer.hello_reply().has_error()) return answer.hello_reply();
  link_id_ = answer.hello_reply().link_id();
  report_ = stub_->Report(&report_context_);
  control_reader_ = std::thread([this] { ReadControl(); });
  ack_reader_ = std::thread([this] { ReadAcks(); });
  if (options_.beats) beater_ = std::thread([this] { Beat(); });
  if (options_.act == Act::kSecondHello) Say(first);
  if (options_.act == Act::kMalformedMessage) {
    v1::AgentMessage malformed;
    malformed.mutable_prepare_done()->mutable_key()->set_phase(static_cast<v1::PhaseKind>(99));
    Say(malformed);
  }
  return answer.hello_reply();
}

void ScriptedAgent::Say(v1::AgentMessage message) {
  std::lock_guard lock(control_write_);
  if (!message.has_hello() && !message.has_beat()) message.set_seq(++said_);
  control_->Write(message);  // a broken stream shows in the reader
}

void ScriptedAgent::Report(v1::ReportMessage message) {
  std::lock_guard lock(report_write_);
  message.set_link_id(link_id_);
  const bool skips = options_.act == Act::kSkipSequence && sequence_ == 1;
  const bool repeats = options_.act == Act::kRepeatSequence && sequence_ > 0;
  sequence_ += skips ? 2 : 1;
  message.set_sequence(sequence_);
  report_->Write(message);
  if (repeats) report_->Write(message);
}

void ScriptedAgent::ReadControl() {
  v1::ControllerMessage message;
  while (control_->Read(&message)) On(message);
  control_->Finish();
  std::lock_guard lock(mutex_);
  control_over_ = gone_ = true;
  changed_.notify_all();
}

void ScriptedAgent::ReadAcks() {
  v1::ReportAck ack;
  while (report_->Read(&ack)) {
    if (ack.has_error()) {
      std::lock_guard lock(mutex_);
      refused_ = ack.error();
    } else {
      acknowledged_ = std::max<uint64_t>(acknowledged_, ack.committed());
    }
  }
  report_->Finish();
}

void ScriptedAgent::Beat() {
  for (uint64_t seq = 1; WaitUntil(Now() + 200 * kMillisecond); ++seq) {
    v1::AgentMessage message;
    message.mutable_beat()->set_seq(seq);
    message.mutable_beat()->set_t1(Now());
    Say(message);
  }
}

// Phase threads and the beater share it; a Stop only concerns phases, which look at it themselves.
bool ScriptedAgent::WaitUntil(Nanos instant) {
  std::unique_lock lock(mutex_);
  const auto until = std::chrono::steady_clock::time_point(std::chrono::nanoseconds(instant));
  return !changed_.wait_until(lock, until, [&] { return gone_; });
}

void ScriptedAgent::On(const v1::ControllerMessage& message) {
  const auto note = [&](std::string text) {
    std::lock_guard lock(mutex_);
    heard_.push_back(std::move(text));
  };
  if (message.has_attach()) {
    note(std::string("attach ") + (message.attach().guard() ? "guard" : "plain"));
    if (options_.act != Act::kHangInAttach) OnAttach(message.attach());
  } else if (message.has_prepare()) {
    note(message.prepare().has_fill() ? "prepare fill" : "prepare measure");
    OnPrepare(message.prepare());
  } else if (message.has_start()) {
    note("start");
    if (options_.act != Act::kHangInStart) OnStart(message.start());
  } else if (message.has_stop()) {
    note(message.stop().now() ? "stop now" : "stop after");
    OnStop(message.stop());
  } else if (message.has_detach()) {
    note("detach");
    if (options_.act == Act::kHangInDetach) return;
    v1::AgentMessage done;
    *done.mutable_detach_done()->mutable_key() = message.detach().key();
    Say(done);
  } else if (message.has_inspect()) {
    v1::AgentMessage done;
    done.mutable_inspect_done()->set_request(message.inspect().request());
    for (const auto& target : message.inspect().targets()) {
      v1::Inspection& inspection = *done.mutable_inspect_done()->add_inspections();
      inspection.set_target(target.target_name());
      inspection.set_found("nothing");
      inspection.set_writable(true);
    }
    Say(done);
  } else if (message.has_goodbye()) {
    std::lock_guard lock(mutex_);
    goodbye_ = true;
    changed_.notify_all();
  }
}

void ScriptedAgent::OnAttach(const v1::Attach& attach) {
  v1::AgentMessage done;
  *done.mutable_attach_done()->mutable_key() = attach.key();
  done.mutable_attach_done()->set_target(attach.target_name());
  done.mutable_attach_done()->set_generation(5);
  if (!attach.guard() && !attach.target().has_null() && attach.generation() != 5) {
    *done.mutable_attach_done()->mutable_error() = TestError("GENERATION", "not the guard's generation");
  }
  Say(done);
}

void ScriptedAgent::OnPrepare(const v1::Prepare& prepare) {
  if (options_.act == Act::kHangInPrepare) return;
  if (phase_.joinable()) phase_.join();
  v1::AgentMessage done;
  *done.mutable_prepare_done()->mutable_key() = prepare.key();
  done.mutable_prepare_done()->set_memory_bytes(1 << 20);
  if (options_.act == Act::kPrepareFails) {
    *done.mutable_prepare_done()->mutable_error() = TestError("BUFFER_MEMORY", "does not fit");
  } else {
    std::lock_guard lock(mutex_);
    prepared_ = prepare;
    holds_phase_ = true;
    stop_now_ = false;
    stop_after_ = INT64_MAX;
  }
  Say(done);
}

void ScriptedAgent::OnStart(const v1::Start& start) {
  v1::AgentMessage done;
  *done.mutable_start_done()->mutable_key() = start.key();
  done.mutable_start_done()->set_local_t0(start.t0_fleet());
  done.mutable_start_done()->set_error_ns(1000);
  const bool missed = Now() >= start.t0_fleet();
  done.mutable_start_done()->set_missed(missed);
  Say(done);
  if (!missed) phase_ = std::thread([this, prepare = prepared_, t0 = start.t0_fleet()] { RunPhase(prepare, t0); });
}

void ScriptedAgent::OnStop(const v1::Stop& stop) {
  bool idle = false;
  {
    std::lock_guard lock(mutex_);
    if (!stop.now()) stop_after_ = std::min<int64_t>(stop_after_, stop.after_interval());
    if (stop.now()) stop_now_ = true;
    idle = holds_phase_ && !phase_.joinable();
  }
  changed_.notify_all();
  // Prepared, never started: it ends here and now.
  if (idle) SendEnded(prepared_, -1, false);
}

void ScriptedAgent::RunPhase(v1::Prepare prepare, int64_t t0) {
  if (!WaitUntil(t0)) return;
  v1::AgentMessage first;
  *first.mutable_first_io()->mutable_key() = prepare.key();
  first.mutable_first_io()->set_local_ns(t0 + 1000);
  first.mutable_first_io()->set_fleet_ns(t0 + 1000);
  Say(first);
  const auto last_of = [&] {
    std::lock_guard lock(mutex_);
    const int64_t planned =
        prepare.has_fill() ? 1
                           : int64_t{prepare.measure().warmup_intervals()} + prepare.measure().window_intervals() - 1;
    return std::min(planned, stop_after_);
  };
  int64_t k = 0;
  for (;; ++k) {
    if (!WaitUntil(t0 + (k + 1) * prepare.interval_ns())) return;
    {
      std::lock_guard lock(mutex_);
      if (stop_now_) break;
    }
    if (prepare.has_measure()) {
      if (options_.act == Act::kVanishInRun && k == 1) return Vanish();
      if (options_.act == Act::kHangInRun && k >= 1) return;
      SendInterval(prepare, k, false);
    } else {
      v1::AgentMessage progress;
      *progress.mutable_progress()->mutable_key() = prepare.key();
      progress.mutable_progress()->set_bytes_done(static_cast<uint64_t>(k) + 1);
      progress.mutable_progress()->set_bytes_total(2);
      Say(progress);
    }
    if (k >= last_of()) {
      ++k;
      break;
    }
  }
  if (options_.act == Act::kHangInDrain && prepare.has_measure()) return;
  SendEnded(prepare, k - 1, options_.act == Act::kFillFails && prepare.has_fill());
}

void ScriptedAgent::SendInterval(const v1::Prepare& prepare, int64_t interval, bool drain) {
  IntervalDelta delta{.interval = interval, .drain = drain, .length = prepare.interval_ns()};
  for (const uint32_t initiator : prepare.initiators()) {
    InitiatorDelta& out = delta.initiators.emplace_back();
    out.initiator = initiator;
    Histogram response;
    for (uint64_t i = 0; i < kOps; ++i) response.Record(100'000 + 1000 * static_cast<uint64_t>(initiator));
    KindDelta& kind = out.kinds.emplace_back();
    kind.completed = kOps;
    kind.bytes = kOps * kBlock;
    kind.response = response.Encode();
    if (options_.act == Act::kCorruptHistogram && interval == 1) kind.response.counts = "\xff\xff\xff";
  }
  v1::ReportMessage message;
  *message.mutable_key() = prepare.key();
  *message.mutable_interval() = ToProto(delta);
  Report(std::move(message));
}

void ScriptedAgent::SendEnded(const v1::Prepare& prepare, int64_t last, bool failed) {
  holds_phase_ = false;
  PhaseTotals totals;
  totals.last_interval = last;
  if (prepare.has_fill()) {
    uint64_t bytes = 0;
    for (const auto& extent : prepare.fill().extents()) bytes += extent.length() * prepare.fill().passes();
    KindTotals& written = totals.initiators.emplace_back().kinds[static_cast<size_t>(OpKind::kWrite)];
    written.submitted = written.completed = 1;
    written.bytes = failed ? 0 : bytes;
  } else {
    for (const uint32_t initiator : prepare.initiators()) {
      InitiatorTotals& out = totals.initiators.emplace_back();
      out.initiator = initiator;
      KindTotals& read = out.kinds[static_cast<size_t>(OpKind::kRead)];
      read.submitted = read.completed = static_cast<uint64_t>(last + 1) * kOps;
      read.bytes = read.completed * kBlock;
      if (options_.act == Act::kLieInTotals) ++read.completed, ++read.submitted;
    }
  }
  totals.last_sequence = sequence_ + 1;
  v1::ReportMessage message;
  *message.mutable_key() = prepare.key();
  *message.mutable_ended()->mutable_totals() = ToProto(totals);
  if (failed) *message.mutable_ended()->mutable_error() = TestError("WRITE_FAILED", "no space left on device");
  Report(std::move(message));
}

v1::Error ScriptedAgent::refused() const {
  std::lock_guard lock(mutex_);
  return refused_;
}

std::vector<std::string> ScriptedAgent::heard() const {
  std::lock_guard lock(mutex_);
  return heard_;
}

bool ScriptedAgent::WaitForGoodbye(Nanos timeout) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::nanoseconds(timeout), [&] { return goodbye_; });
}

bool ScriptedAgent::WaitForEnd(Nanos timeout) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::nanoseconds(timeout), [&] { return control_over_; });
}

}  // namespace muster::test
