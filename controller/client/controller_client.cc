#include "controller/client/controller_client.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "common/base/status.h"
#include "common/base/thread.h"
#include "common/tls/endpoint.h"
#include "common/wire/grpc_status.h"
#include "common/wire/rules.h"
#include "muster/v1/controller_api.grpc.pb.h"

namespace muster {
namespace {

constexpr int kMaxMessage = 16 << 20;
constexpr Nanos kAnswer = 15 * kSecond;
constexpr Nanos kSubmit = 60 * kSecond;   // it compiles
constexpr Nanos kResult = 120 * kSecond;  // it reads a run file
constexpr size_t kMaxResult = size_t{256} << 20;
constexpr size_t kWaiting = 64;  // events that Next has not taken

std::chrono::system_clock::time_point In(Nanos time) {
  return std::chrono::system_clock::now() + std::chrono::microseconds(time / 1000);
}

// The controller's own typed error, or what a broken connection means here.
absl::Status Understood(const grpc::Status& status, const std::string& address, bool cancelled) {
  absl::Status error = FromGrpc(status);
  const std::string code = GetErrorInfo(error).code;
  if (error.ok() || !code.starts_with("RPC_")) return error;
  if (status.error_code() == grpc::StatusCode::CANCELLED && !cancelled) {
    return MakeError(absl::StatusCode::kResourceExhausted,
                     {.code = "WATCHER_TOO_SLOW",
                      .place = "controller " + address,
                      .message = "it has cut this client off, which did not read in time",
                      .next = "The run goes on; `muster watch` shows it again."});
  }
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
    return MakeError(absl::StatusCode::kUnimplemented, {.code = "CONTROLLER_VERSION",
                                                        .place = "controller " + address,
                                                        .message = "it does not know this request",
                                                        .next = "Use the controller's release of muster."});
  }
  return MakeError(absl::StatusCode::kUnavailable,
                   {.code = "CONTROLLER_LOST",
                    .place = "controller " + address,
                    .message = "the connection to it has ended: " + status.error_message(),
                    .next = "See whether `muster serve` still runs; `muster watch` takes a run up again."});
}

class StreamWatch final : public RunWatch {
 public:
  StreamWatch(v1::ControllerApi::Stub& stub, std::string address, const std::string& run, bool detail)
      : address_(std::move(address)) {
    v1::WatchRunRequest request;
    request.set_run(run);
    request.set_detail(detail);
    reader_ = stub.WatchRun(&context_, request);
    thread_ = std::thread([this] {
      SetThreadName("watch");
      ReadAll();
    });
  }
  ~StreamWatch() override {
    {
      std::lock_guard lock(mutex_);
      leaving_ = true;
    }
    changed_.notify_all();
    context_.TryCancel();
    thread_.join();
  }

  absl::StatusOr<std::optional<v1::RunEvent>> Next(Nanos timeout) override {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::nanoseconds(timeout), [&] { return over_ || !events_.empty(); });
    if (!events_.empty()) {
      std::optional<v1::RunEvent> event(std::move(events_.front()));
      events_.pop_front();
      changed_.notify_all();
      return event;
    }
    if (over_ && !end_.ok()) return end_;
    return std::optional<v1::RunEvent>();
  }
  bool over() const override {
    std::lock_guard lock(mutex_);
    return over_ && events_.empty();
  }

 private:
  void ReadAll() {
    v1::RunEvent event;
    absl::Status bad;
    while (reader_->Read(&event)) {
      bad = ValidateMessage(event);
      if (!bad.ok()) break;
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return leaving_ || events_.size() < kWaiting; });
      if (leaving_) break;
      events_.push_back(std::move(event));
      changed_.notify_all();
    }
    if (!bad.ok()) context_.TryCancel();
    const grpc::Status status = reader_->Finish();
    std::lock_guard lock(mutex_);
    end_ = bad.ok() ? Understood(status, address_, leaving_) : bad;
    over_ = true;
    changed_.notify_all();
  }

  const std::string address_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::RunEvent>> reader_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<v1::RunEvent> events_;
  bool over_ = false, leaving_ = false;
  absl::Status end_;
  std::thread thread_;
};

class GrpcClient final : public ControllerClient {
 public:
  GrpcClient(std::string address, const std::shared_ptr<grpc::Channel>& channel)
      : address_(std::move(address)), stub_(v1::ControllerApi::NewStub(channel)) {}

  absl::StatusOr<v1::AgentList> ListAgents() override {
    return Ask<v1::AgentList>(&v1::ControllerApi::Stub::ListAgents, v1::ListAgentsRequest(), kAnswer);
  }
  absl::StatusOr<v1::RunList> ListRuns() override {
    return Ask<v1::RunList>(&v1::ControllerApi::Stub::ListRuns, v1::ListRunsRequest(), kAnswer);
  }
  absl::StatusOr<std::string> Submit(const v1::SubmitRunRequest& request) override {
    MUSTER_ASSIGN_OR_RETURN(const auto reply,
                            Ask<v1::SubmitRunReply>(&v1::ControllerApi::Stub::SubmitRun, request, kSubmit));
    return reply.run();
  }
  absl::StatusOr<v1::CancelRunReply> Cancel(const std::string& run, bool now) override {
    v1::CancelRunRequest request;
    request.set_run(run);
    request.set_now(now);
    return Ask<v1::CancelRunReply>(&v1::ControllerApi::Stub::CancelRun, request, kAnswer);
  }
  std::unique_ptr<RunWatch> Watch(const std::string& run, bool detail) override {
    return std::make_unique<StreamWatch>(*stub_, address_, run, detail);
  }
  absl::StatusOr<std::string> Result(const std::string& run, v1::ResultForm form) override {
    v1::GetResultRequest request;
    request.set_run(run);
    request.set_form(form);
    grpc::ClientContext context;
    context.set_deadline(In(kResult));
    const auto reader = stub_->GetResult(&context, request);
    std::string text;
    v1::ResultChunk chunk;
    bool large = false;
    while (!large && reader->Read(&chunk)) {
      text += chunk.data();
      large = text.size() > kMaxResult;
    }
    if (large) context.TryCancel();
    MUSTER_RETURN_IF_ERROR(Understood(reader->Finish(), address_, large));
    return text;
  }

  void Abort() override {
    std::lock_guard lock(mutex_);
    aborted_ = true;
    if (asking_ != nullptr) asking_->TryCancel();
  }

 private:
  template <typename Reply, typename Request>
  absl::StatusOr<Reply> Ask(grpc::Status (v1::ControllerApi::Stub::*method)(grpc::ClientContext*, const Request&,
                                                                            Reply*),
                            const Request& request, Nanos deadline) {
    grpc::ClientContext context;
    context.set_deadline(In(deadline));
    Reply reply;
    {
      std::lock_guard lock(mutex_);
      asking_ = &context;
      if (aborted_) context.TryCancel();
    }
    const grpc::Status answer = ((*stub_).*method)(&context, request, &reply);
    {
      std::lock_guard lock(mutex_);
      asking_ = nullptr;
    }
    MUSTER_RETURN_IF_ERROR(Understood(answer, address_, true));
    MUSTER_RETURN_IF_ERROR(ValidateMessage(reply));
    return reply;
  }

  const std::string address_;
  std::mutex mutex_;
  grpc::ClientContext* asking_ = nullptr;
  bool aborted_ = false;
  std::unique_ptr<v1::ControllerApi::Stub> stub_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ControllerClient>> ControllerClient::Connect(const std::string& address,
                                                                            const TlsFiles& files, bool insecure,
                                                                            Nanos timeout) {
  auto endpoint = ParseEndpoint(address);
  if (!endpoint.ok()) return AtPlace(endpoint.status(), "--controller");
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessage);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const bool plain = endpoint->is_unix() || insecure;
  if (plain && (files.any() || (endpoint->is_unix() && insecure))) {
    return MakeError(
        absl::StatusCode::kInvalidArgument,
        {.code = "USAGE",
         .place = files.any() ? "--ca, --cert, --key" : "--insecure-tcp",
         .message = endpoint->is_unix() ? "a Unix socket needs no TLS" : "with --insecure-tcp there is none",
         .next = ""});
  }
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (!plain) {
    MUSTER_ASSIGN_OR_RETURN(const TlsCredentials tls, LoadTls(files, TlsUse::kUser, WallMicros() / 1'000'000));
    credentials = grpc::SslCredentials({tls.ca_pem, tls.key_pem, tls.cert_pem});
    // Whatever address was dialled: the other end must be the controller of this authority.
    arguments.SetSslTargetNameOverride(kControllerName);
  }
  auto channel = grpc::CreateCustomChannel(endpoint->DialTarget(), credentials, arguments);
  // Until it is there or has failed once: a socket that nobody listens on is known at once.
  const auto until = In(timeout);
  grpc_connectivity_state state = channel->GetState(/*try_to_connect=*/true);
  while (state != GRPC_CHANNEL_READY && state != GRPC_CHANNEL_TRANSIENT_FAILURE) {
    if (!channel->WaitForStateChange(state, until)) break;
    state = channel->GetState(true);
  }
  if (state != GRPC_CHANNEL_READY) {
    return MakeError(absl::StatusCode::kUnavailable,
                     {.code = "CONTROLLER_NOT_THERE",
                      .place = "controller " + endpoint->Text(),
                      .message = plain ? "nobody answers there"
                                       : "nobody answers there, or its certificate or ours was refused (then the "
                                         "controller's log says why)",
                      .next = "Start one with `muster serve`, or name another with --controller."});
  }
  return std::make_unique<GrpcClient>(address, channel);
}

}  // namespace muster
