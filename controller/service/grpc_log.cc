#include "controller/service/grpc_log.h"

#include <fmt/format.h>
#include <grpc/grpc.h>
#include <grpc/support/log.h>

#include "common/base/logging.h"
#include "controller/fleet/refusal_log.h"

namespace muster {
namespace {

constexpr std::string_view kHandshake = "Handshaking failed: ";                       // chttp2_server.cc
constexpr std::string_view kTooLarge = "UNKNOWN:Received message larger than max (";  // message_size_filter.cc
constexpr std::string_view kFull = "grpc_message:\"Buffers full\"";                   // chttp2_transport.cc

// What stands between `before` and the next of `until`; empty if `before` is not there.
std::string_view Between(std::string_view text, std::string_view before, std::string_view until) {
  const size_t at = text.find(before);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + before.size());
  text = text.substr(0, text.find_first_of(until));
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

bool StartsWith(std::string_view text, std::string_view with) {
  return text.substr(0, with.size()) == with;
}

std::string Of(std::string_view address) {
  return address.empty() ? std::string() : fmt::format(" of {}", address);
}

void OnGrpcLog(gpr_log_func_args* args) {
  const std::string_view text = args->message;
  if (const auto refusal = RefusalIn(text)) return LogRefusal(*refusal);
  if (args->severity == GPR_LOG_SEVERITY_ERROR) Log(LogLevel::kDebug, "grpc: {}", text);
}

}  // namespace

std::optional<std::string> RefusalIn(std::string_view line) {
  if (StartsWith(line, kHandshake)) {
    // Handshaking failed: UNKNOWN:REASON {..., children:[INTERNAL:REASON {target_address:"ipv4:..."
    const std::string_view reason = Between(line, "UNKNOWN:", "{");
    return fmt::format("connection{} refused: {}", Of(Between(line, "target_address:\"", "\"")),
                       reason.empty() ? line.substr(0, 256) : reason);
  }
  if (StartsWith(line, kTooLarge)) {
    // ... larger than max (SIZE vs. LIMIT) {...
    return fmt::format("call refused: a message of {} bytes is beyond the limit of {} [MESSAGE_TOO_LARGE]",
                       Between(line, kTooLarge, " "), Between(line, " vs. ", ")"));
  }
  if (line.find(kFull) != std::string_view::npos) {
    // UNKNOWN:Error received from peer ipv4:ADDRESS:PORT {grpc_message:"Buffers full", ...
    return fmt::format(
        "call{} refused: it sent more than this controller keeps unread; one message, or faster than it is read "
        "[BUFFERS_FULL]",
        Of(Between(line, "from peer ", " {")));
  }
  return std::nullopt;
}

void ListenToGrpcLog() {
  gpr_set_log_function(OnGrpcLog);
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_DEBUG);
  // Two lines at the end of each call: why it ended.
  grpc_tracer_set_enabled("call_error", 1);
}

}  // namespace muster
