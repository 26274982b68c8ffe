#include "common/wire/grpc_status.h"

#include <algorithm>
#include <string>

#include "common/base/status.h"
#include "common/wire/codec.h"
#include "common/wire/text.h"

namespace muster {
namespace {

// Base64 of the details and percent-encoding of the message (up to threefold) must stay below 8 KiB together.
constexpr size_t kPlaceMax = 512;
constexpr size_t kMessageMax = 1024;
constexpr size_t kNextMax = 512;

// A refusal by gRPC's own authorization step carries the text alone: "place: message [CODE] next" (FormatError).
absl::Status FromText(absl::StatusCode kind, const std::string& text) {
  const size_t close = text.find(']'), open = text.rfind('[', close);
  if (close == std::string::npos || open == std::string::npos || open == 0 || close < open + 2) return {};
  const std::string code = text.substr(open + 1, close - open - 1);
  const bool is_code = std::all_of(code.begin(), code.end(),
                                   [](char c) { return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; });
  if (!is_code || text[open - 1] != ' ') return {};
  const std::string next = close + 2 < text.size() ? text.substr(close + 2) : "";
  return MakeError(kind, {.code = code, .place = "", .message = text.substr(0, open - 1), .next = next});
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  v1::Error error = ToProto(status);
  error.set_place(WireText(error.place(), kPlaceMax));
  error.set_message(WireText(error.message(), kMessageMax));
  error.set_next(WireText(error.next(), kNextMax));
  return {static_cast<grpc::StatusCode>(status.code()), WireText(FormatError(status), kMessageMax),
          error.SerializeAsString()};
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  v1::Error error;
  if (!status.error_details().empty() && error.ParseFromString(status.error_details()) && !error.code().empty()) {
    return FromProto(error);
  }
  const auto kind = static_cast<absl::StatusCode>(status.error_code());
  if (absl::Status typed = FromText(kind, status.error_message()); !typed.ok()) return typed;
  return MakeError(kind, {.code = "RPC_" + absl::StatusCodeToString(kind),
                          .place = "",
                          .message = status.error_message().empty() ? "the call ended" : status.error_message(),
                          .next = ""});
}

}  // namespace muster
