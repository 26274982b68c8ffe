#pragma once
#include <grpcpp/grpcpp.h>

#include <memory>

#include "common/tls/credentials.h"

namespace muster {

// Mutual TLS for a TCP port: a client certificate of the same authority is asked for, and every call is checked against
// the table of roles.h. Refusals are logged with method and name; gRPC gives no address before a call is let in.
std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(const TlsCredentials& credentials);

}  // namespace muster
