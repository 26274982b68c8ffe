#pragma once
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/plan/plan.h"
#include "muster/v1/agent_link.grpc.pb.h"

namespace muster {

// A controller played by a test: a real gRPC server on a Unix socket in a fresh 0700 directory, that says what it is
// told and keeps what it hears. Beats are answered and reports acknowledged unless switched off. Thread-safe.
class FakeController : private v1::AgentLink::Service {
 public:
  FakeController();
  ~FakeController() override;
  std::string address() const { return "unix:" + socket_; }

  // Begin to listen; ends the links and the socket's life (`Vanish`) as a killed process would: nothing is said.
  void Listen();
  void Vanish();

  std::atomic<bool> answer_beats{true};
  std::atomic<bool> acknowledge{true};
  // What Hello is answered with; the default accepts with a lease of 10 s.
  std::function<v1::HelloReply(const v1::Hello&)> greet;

  void Say(const v1::ControllerMessage& message);
  // The next message of the agent, other than Hello and Beats, that has not been taken yet. Nothing after 20 s: a test
  // then fails at the check that follows.
  std::optional<v1::AgentMessage> Next();
  std::optional<v1::ReportMessage> NextReport();
  bool WaitHellos(int count);
  bool WaitBeats(int count);
  int beats() const { return beats_; }
  v1::Beat last_beat();

 private:
  using ControlStream = grpc::ServerReaderWriter<v1::ControllerMessage, v1::AgentMessage>;
  using ReportStream = grpc::ServerReaderWriter<v1::ReportAck, v1::ReportMessage>;
  grpc::Status Control(grpc::ServerContext* context, ControlStream* stream) override;
  grpc::Status Report(grpc::ServerContext* context, ReportStream* stream) override;
  template <typename Predicate>
  bool Wait(Predicate predicate);

  std::string dir_, socket_;
  std::unique_ptr<grpc::Server> server_;
  std::mutex mutex_;
  std::condition_variable changed_;
  ControlStream* control_ = nullptr;
  std::deque<v1::AgentMessage> said_;
  std::deque<v1::ReportMessage> reports_;
  v1::Beat last_beat_;
  int hellos_ = 0;
  uint64_t commands_ = 0;  // numbered in this session
  uint64_t heard_ = 0;     // number of the agent's last message in it
  std::atomic<int> beats_{0};
};

// ---- Messages
v1::PhaseKey WireKey(v1::PhaseKind phase, uint32_t step = 0, uint32_t attempt = 0);
v1::ControllerMessage AttachNull(double latency_us = 100);
v1::ControllerMessage PrepareMeasure(uint32_t window_intervals, Nanos interval = 100 * kMillisecond);
v1::ControllerMessage StartAt(Nanos t0_fleet);
v1::ControllerMessage StopNow();
v1::ControllerMessage DetachAll();
v1::ControllerMessage Bye();

}  // namespace muster
