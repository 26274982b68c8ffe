#include "tests/integration/agent_link/fake_controller.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "common/wire/codec.h"
#include "common/wire/version.h"

namespace muster {
namespace {

constexpr auto kPatience = std::chrono::seconds(20);

}  // namespace

FakeController::FakeController() {
  std::string pattern = "/tmp/muster-test-XXXXXX";
  REQUIRE(mkdtemp(pattern.data()) != nullptr);
  dir_ = pattern;
  socket_ = dir_ + "/control.sock";
  greet = [](const v1::Hello&) {
    v1::HelloReply reply;
    reply.set_api(kApiMax);
    reply.set_build("fake");
    reply.set_controller_epoch(42);
    reply.set_link_id(7);
    reply.set_lease_ns(10 * kSecond);
    return reply;
  };
  Listen();
}

FakeController::~FakeController() {
  Vanish();
  std::error_code ignored;
  std::filesystem::remove_all(dir_, ignored);
}

void FakeController::Listen() {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address(), grpc::InsecureServerCredentials());
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  REQUIRE(server_ != nullptr);
}

void FakeController::Vanish() {
  if (!server_) return;
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  server_.reset();
}

template <typename Predicate>
bool FakeController::Wait(Predicate predicate) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kPatience, predicate);
}

grpc::Status FakeController::Control(grpc::ServerContext*, ControlStream* stream) {
  v1::AgentMessage message;
  while (stream->Read(&message)) {
    const Nanos received = SteadyClock::Get().Now();
    std::lock_guard lock(mutex_);
    v1::ControllerMessage answer;
    if (message.has_hello()) {
      ++hellos_;
      *answer.mutable_hello_reply() = greet(message.hello());
      const bool refused = answer.hello_reply().has_error();
      if (!refused && !answer.hello_reply().resumed()) commands_ = heard_ = 0;
      if (!refused) control_ = stream;
      stream->Write(answer);
      changed_.notify_all();
      if (refused) return grpc::Status::OK;
    } else if (message.has_beat()) {
      ++beats_;
      last_beat_ = message.beat();
      if (answer_beats) {
        v1::BeatReply* reply = answer.mutable_beat_reply();
        reply->set_seq(message.beat().seq());
        reply->set_t1(message.beat().t1());
        reply->set_t2(received);
        reply->set_heard(heard_);
        reply->set_t3(SteadyClock::Get().Now());
        stream->Write(answer);
      }
    } else {
      if (message.seq() != 0) heard_ = message.seq();
      said_.push_back(message);
    }
    changed_.notify_all();
  }
  std::lock_guard lock(mutex_);
  if (control_ == stream) control_ = nullptr;
  return grpc::Status::OK;
}

grpc::Status FakeController::Report(grpc::ServerContext*, ReportStream* stream) {
  v1::ReportMessage report;
  while (stream->Read(&report)) {
    if (acknowledge) {
      v1::ReportAck ack;
      ack.set_committed(report.sequence());
      stream->Write(ack);
    }
    std::lock_guard lock(mutex_);
    reports_.push_back(report);
    changed_.notify_all();
  }
  return grpc::Status::OK;
}

void FakeController::Say(const v1::ControllerMessage& message) {
  std::lock_guard lock(mutex_);
  REQUIRE(control_ != nullptr);
  v1::ControllerMessage numbered = message;
  if (!message.has_goodbye()) numbered.set_seq(++commands_);
  control_->Write(numbered);
}

std::optional<v1::AgentMessage> FakeController::Next() {
  if (!Wait([this] { return !said_.empty(); })) return std::nullopt;
  std::lock_guard lock(mutex_);
  v1::AgentMessage message = std::move(said_.front());
  said_.pop_front();
  return message;
}

std::optional<v1::ReportMessage> FakeController::NextReport() {
  if (!Wait([this] { return !reports_.empty(); })) return std::nullopt;
  std::lock_guard lock(mutex_);
  v1::ReportMessage report = std::move(reports_.front());
  reports_.pop_front();
  return report;
}

bool FakeController::WaitHellos(int count) {
  return Wait([&] { return hellos_ >= count; });
}
bool FakeController::WaitBeats(int count) {
  return Wait([&] { return beats_ >= count; });
}
v1::Beat FakeController::last_beat() {
  std::lock_guard lock(mutex_);
  return last_beat_;
}

v1::PhaseKey WireKey(v1::PhaseKind phase, uint32_t step, uint32_t attempt) {
  v1::PhaseKey key;
  key.set_run("run-1");
  key.set_step(step);
  key.set_phase(phase);
  key.set_attempt(attempt);
  return key;
}

v1::ControllerMessage AttachNull(double latency_us) {
  v1::ControllerMessage message;
  v1::Attach* attach = message.mutable_attach();
  *attach->mutable_key() = WireKey(v1::PHASE_KIND_ATTACH);
  attach->set_target_name("cal");
  *attach->mutable_target() = ToProto(Target{"cal", NullTarget{.latency = static_cast<Nanos>(latency_us * 1e3)}});
  ToProto({{.slot = 0, .name = "", .size = 1 << 20}}, attach->mutable_objects());
  attach->set_min_block(4096);
  attach->set_deadline_ns(60 * kSecond);
  return message;
}

v1::ControllerMessage PrepareMeasure(uint32_t window_intervals, Nanos interval) {
  PhaseSpec spec;
  spec.key = {.run = "run-1", .step = 0, .phase = PhaseKind::kMeasure, .attempt = 0};
  spec.target = "cal";
  spec.objects = {{.slot = 0, .name = "", .size = 1 << 20}};
  spec.initiators = {0};
  spec.initiator_count = spec.initiator_count_max = 1;
  spec.interval = interval;
  spec.op_timeout = 2 * kSecond;
  MeasureSpec work;
  work.workload.size = 1 << 20;
  work.workload.load = {.streams = 1, .depth = 2};
  work.window_intervals = window_intervals;
  spec.work = work;
  v1::ControllerMessage message;
  *message.mutable_prepare() = ToProto(spec);
  message.mutable_prepare()->set_deadline_ns(20 * kSecond);
  return message;
}

v1::ControllerMessage StartAt(Nanos t0_fleet) {
  v1::ControllerMessage message;
  *message.mutable_start()->mutable_key() = WireKey(v1::PHASE_KIND_MEASURE);
  message.mutable_start()->set_t0_fleet(t0_fleet);
  return message;
}

v1::ControllerMessage StopNow() {
  v1::ControllerMessage message;
  *message.mutable_stop()->mutable_key() = WireKey(v1::PHASE_KIND_MEASURE);
  message.mutable_stop()->set_now(true);
  return message;
}

v1::ControllerMessage DetachAll() {
  v1::ControllerMessage message;
  *message.mutable_detach()->mutable_key() = WireKey(v1::PHASE_KIND_DETACH);
  message.mutable_detach()->set_all(true);
  return message;
}

v1::ControllerMessage Bye() {
  v1::ControllerMessage message;
  message.mutable_goodbye()->set_reason("done");
  return message;
}

}  // namespace muster
