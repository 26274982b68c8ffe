#pragma once
#include "controller/fleet/link_hub.h"
#include "muster/v1/agent_link.grpc.pb.h"

namespace muster {

// The RPCs are reactors of the hub; nothing here blocks. The hub outlives it.
class AgentLinkService final : public v1::AgentLink::CallbackService {
 public:
  explicit AgentLinkService(LinkHub& hub) : hub_(hub) {}
  grpc::ServerBidiReactor<v1::AgentMessage, v1::ControllerMessage>* Control(
      grpc::CallbackServerContext* context) override {
    return hub_.NewControl(context);
  }
  grpc::ServerBidiReactor<v1::ReportMessage, v1::ReportAck>* Report(grpc::CallbackServerContext* context) override {
    return hub_.NewReport(context);
  }

 private:
  LinkHub& hub_;
};

}  // namespace muster
