#pragma once
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "common/base/queue.h"
#include "controller/fleet/link_hub.h"
#include "controller/service/run_book.h"
#include "muster/v1/controller_api.grpc.pb.h"

namespace muster {

// The RPCs of `muster`'s verbs. Every request is validated by its rules first. What takes time (compiling a campaign,
// reading a run file) is done by one worker thread with a bounded queue (CONTROLLER_BUSY), never in gRPC's threads.
// Hub and book outlive it; it outlives the gRPC server. Secrets of a request go into the plan and nowhere else.
class ControllerApiService final : public v1::ControllerApi::CallbackService {
 public:
  ControllerApiService(LinkHub& hub, RunBook& book, std::string build, Nanos lease, const Clock& clock);
  // Waits for the job at hand.
  ~ControllerApiService() override;

  grpc::ServerUnaryReactor* ListAgents(grpc::CallbackServerContext* context, const v1::ListAgentsRequest* request,
                                       v1::AgentList* reply) override;
  grpc::ServerUnaryReactor* SubmitRun(grpc::CallbackServerContext* context, const v1::SubmitRunRequest* request,
                                      v1::SubmitRunReply* reply) override;
  grpc::ServerWriteReactor<v1::RunEvent>* WatchRun(grpc::CallbackServerContext* context,
                                                   const v1::WatchRunRequest* request) override;
  grpc::ServerUnaryReactor* CancelRun(grpc::CallbackServerContext* context, const v1::CancelRunRequest* request,
                                      v1::CancelRunReply* reply) override;
  grpc::ServerUnaryReactor* ListRuns(grpc::CallbackServerContext* context, const v1::ListRunsRequest* request,
                                     v1::RunList* reply) override;
  grpc::ServerWriteReactor<v1::ResultChunk>* GetResult(grpc::CallbackServerContext* context,
                                                       const v1::GetResultRequest* request) override;

  // Until no stream to a client is open and none has been for `quiet`: who has seen a run end asks for its result next.
  // False on time-out.
  bool WaitForQuiet(Nanos quiet, Nanos timeout);

  static constexpr size_t kJobs = 32;
  static constexpr size_t kStreams = 256;

 private:
  using Job = std::function<void()>;
  bool TakeStream();  // false: too many are open
  void StreamOver();
  void Work();

  LinkHub& hub_;
  RunBook& book_;
  const std::string build_;
  const Nanos lease_;
  const Clock& clock_;
  std::mutex mutex_;
  std::condition_variable ended_;
  size_t streams_ = 0;
  Nanos last_over_ = kNever;  // a stream has ended; kNever: none has
  BoundedQueue<Job> jobs_{kJobs};
  std::thread worker_;
};

}  // namespace muster
