#include "agent/link/grpc_link.h"

#include <grpc/impl/codegen/grpc_types.h>

#include <vector>

#include "agent/link/calls.h"
#include "agent/link/link_codec.h"
#include "common/base/status.h"

namespace muster::agent {
namespace {

constexpr int kReceiveLimit = 16 << 20;
constexpr int kReconnectBackoffMs = 2000;
constexpr Nanos kFlushTime = kSecond;
constexpr size_t kMostRetired = 64;  // cancelled calls end at once; a bound all the same
constexpr Nanos kCancelTime = 2 * kSecond;

absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const ControllerAddress& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectBackoffMs);
  arguments.SetMaxReceiveMessageSize(kReceiveLimit);
  // No HTTP/2 keepalive: Beats do that. A Unix socket in a 0700 directory needs no other credentials.
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  if (address.endpoint.is_unix() || address.insecure) {
    credentials = grpc::InsecureChannelCredentials();
  } else {
    MUSTER_ASSIGN_OR_RETURN(const TlsCredentials tls, LoadTls(address.tls, TlsUse::kAgent, WallMicros() / 1'000'000));
    credentials = grpc::SslCredentials({tls.ca_pem, tls.key_pem, tls.cert_pem});
    // Whatever address was dialled: the other end must be the controller of this authority.
    arguments.SetSslTargetNameOverride(kControllerName);
  }
  return grpc::CreateCustomChannel(address.endpoint.DialTarget(), credentials, arguments);
}

class GrpcLink final : public ControllerLink {
 public:
  GrpcLink(ControllerAddress address, const Clock& clock, LinkListener& listener)
      : address_(std::move(address)), clock_(clock), listener_(listener) {}

  ~GrpcLink() override {
    if (hub_) Close();
    End(kFlushTime);
    for (const Retired& link : retired_) link.hub->WaitForCalls(kCancelTime);
  }

  void Dial(uint64_t link, const Hello& hello) override {
    End(0);
    hub_ = std::make_shared<LinkHub>(link, "controller " + address_.endpoint.Text(), clock_, listener_);
    const auto channel = MakeChannel(address_);
    if (!channel.ok()) return hub_->Lost(channel.status());
    channel_ = *channel;
    stub_ = v1::AgentLink::NewStub(channel_);
    control_ = std::make_shared<ControlCall>(hub_);
    control_->Begin(*stub_, hello);
    std::erase_if(retired_, [](const Retired& link) { return link.hub->WaitForCalls(0); });
    if (retired_.size() > kMostRetired) retired_.erase(retired_.begin());
  }

  void OpenReports(uint64_t link_id) override {
    if (!hub_ || report_) return;
    report_ = std::make_shared<ReportCall>(hub_, link_id);
    report_->Begin(*stub_);
  }

  bool Say(uint64_t seq, const AgentSays& message) override { return control_ && control_->Push(ToWire(seq, message)); }

  bool Report(std::shared_ptr<const muster::agent::Report> report) override {
    return report_ && report_->Push(ToWire(*report, report_->link_id()));
  }

  void Close() override {
    if (!hub_) return;
    hub_->Cut();
    if (control_) control_->Finish();
    if (report_) report_->Finish();
  }

 private:
  // What is left of the link before: given `flush` to end by itself, then cancelled. Cancelled calls end by
  // themselves; only the destructor (`flush` above 0) has to see it.
  void End(Nanos flush) {
    if (!hub_) return;
    const bool ended = hub_->WaitForCalls(flush);
    if (!ended && control_) control_->Cancel();
    if (!ended && report_) report_->Cancel();
    if (!ended && flush > 0) hub_->WaitForCalls(kCancelTime);
    control_.reset();
    report_.reset();
    stub_.reset();
    // gRPC's own thread would destroy the channel with the last call that ends, and with the last channel itself.
    retired_.push_back({.hub = std::move(hub_), .channel = std::move(channel_)});
    hub_.reset();
    channel_.reset();
  }

  const ControllerAddress address_;
  const Clock& clock_;
  LinkListener& listener_;
  std::shared_ptr<LinkHub> hub_;
  // Of a link that was left; kept until its calls have ended and another channel lives.
  struct Retired {
    std::shared_ptr<LinkHub> hub;
    std::shared_ptr<grpc::Channel> channel;
  };
  std::vector<Retired> retired_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::AgentLink::Stub> stub_;
  std::shared_ptr<ControlCall> control_;
  std::shared_ptr<ReportCall> report_;
};

}  // namespace

std::unique_ptr<ControllerLink> MakeGrpcLink(ControllerAddress address, const Clock& clock, LinkListener& listener) {
  return std::make_unique<GrpcLink>(std::move(address), clock, listener);
}

}  // namespace muster::agent
