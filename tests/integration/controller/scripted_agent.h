#pragma once
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/version.h"
#include "muster/v1/agent_link.grpc.pb.h"

namespace muster::test {

enum class Act : uint8_t {
  kNothing,
  kHangInAttach,
  kHangInPrepare,
  kHangInStart,
  kHangInRun,
  kHangInDrain,
  kHangInDetach,
  kVanishInRun,
  kPrepareFails,
  kFillFails,
  kSkipSequence,
  kRepeatSequence,
  kCorruptHistogram,
  kLieInTotals,
  kMalformedMessage,  // an enum value nobody knows
  kSecondHello,
};

// A minimal agent with a script, over real gRPC: answers every command as an agent must, but for its one act. Delivers
// kOps reads of kBlock bytes an interval and initiator. Its clock is the controller's.
class ScriptedAgent {
 public:
  static constexpr uint64_t kOps = 10;
  static constexpr uint64_t kBlock = 4096;

  struct Options {
    std::string id = "agent";
    std::string hostname = "host-a";
    uint64_t instance = 0;  // 0: a number of its own
    uint32_t api_min = kApiMin, api_max = kApiMax;
    std::string build = "test";
    Act act = Act::kNothing;
    bool beats = true;
  };
  ScriptedAgent(const std::string& socket, Options options);
  ~ScriptedAgent();

  // Says Hello and, when accepted, opens Report and begins to Beat. The reply, or an error in it when the stream broke.
  v1::HelloReply Connect();
  void Vanish();  // both streams are cancelled, nothing more is said

  uint64_t acknowledged() const { return acknowledged_; }
  uint64_t sent() const { return sequence_; }
  // Error of the last ReportAck, empty code: none.
  v1::Error refused() const;
  // True once Goodbye has come, within `timeout`.
  bool WaitForGoodbye(Nanos timeout);
  // True once the Control stream has ended, within `timeout`.
  bool WaitForEnd(Nanos timeout);
  std::vector<std::string> heard() const;  // commands, in order: "attach", "prepare fill" ...

 private:
  void ReadControl();
  void ReadAcks();
  void Beat();
  void On(const v1::ControllerMessage& message);
  void OnAttach(const v1::Attach& attach);
  void OnPrepare(const v1::Prepare& prepare);
  void OnStart(const v1::Start& start);
  void OnStop(const v1::Stop& stop);
  void RunPhase(v1::Prepare prepare, int64_t t0);
  void SendInterval(const v1::Prepare& prepare, int64_t interval, bool drain);
  void SendEnded(const v1::Prepare& prepare, int64_t last, bool failed);
  void Say(v1::AgentMessage message);
  void Report(v1::ReportMessage message);
  bool WaitUntil(Nanos instant);  // false: stopped or vanished

  const Options options_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::AgentLink::Stub> stub_;
  grpc::ClientContext control_context_, report_context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::AgentMessage, v1::ControllerMessage>> control_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ReportMessage, v1::ReportAck>> report_;
  std::thread control_reader_, ack_reader_, beater_, phase_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::mutex control_write_, report_write_;
  bool gone_ = false, goodbye_ = false, control_over_ = false, stop_now_ = false;
  int64_t stop_after_ = INT64_MAX;
  uint64_t link_id_ = 0;
  uint64_t said_ = 0;  // numbered messages
  v1::Prepare prepared_;
  std::atomic<bool> holds_phase_{false};
  std::atomic<uint64_t> sequence_{0}, acknowledged_{0};
  v1::Error refused_;
  std::vector<std::string> heard_;
};

}  // namespace muster::test
