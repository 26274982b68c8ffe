#pragma once
#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace muster {

// A typed error as the end of an RPC and back: the Error message travels in the status details, the text for people in
// the status message. Texts are cut so that both fit into gRPC's 8 KiB of trailing metadata.
grpc::Status ToGrpc(const absl::Status& status);
// A status without details (gRPC's own: connection refused, cancelled ...) becomes a typed error RPC_<NAME>.
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace muster
