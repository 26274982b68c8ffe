#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace muster {

// What gRPC tells by its log alone, as a line for people; nothing: of no interest. Two kinds (words of gRPC 1.51):
// - handshakes that failed (no TLS, another authority, expired). The peer's address is there when the connection ended;
//   when the handshake itself failed gRPC leaves it out.
// - calls ended for the size of their messages: beyond the limit, or more unread bytes than the quota allows. Pure.
std::optional<std::string> RefusalIn(std::string_view grpc_line);

// From now on such lines are logged as refusals (refusal_log.h). For the whole process; to be called before its first
// server is made, and again at will.
void ListenToGrpcLog();

}  // namespace muster
