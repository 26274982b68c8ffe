#pragma once
#include <grpcpp/grpcpp.h>

#include <memory>

#include "common/tls/credentials.h"

namespace muster {

// Mutual TLS for a TCP port: a client certificate of the same authority is asked for, and every call is checked against
// the table of roles.h. Refusals are logged with peer and method, at most 10 a second.
std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(const TlsCredentials& credentials);

// From now on what gRPC says of handshakes that failed (wrong authority, expired, no TLS at all) is logged as a
// warning, at most 10 a second. For the whole process; call it before the first server is made.
void LogRefusedHandshakes();

}  // namespace muster
