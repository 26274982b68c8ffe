#include "common/wire/grpc_status.h"

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
  return MakeError(kind, {.code = "RPC_" + absl::StatusCodeToString(kind),
                          .place = "",
                          .message = status.error_message().empty() ? "the call ended" : status.error_message(),
                          .next = ""});
}

}  // namespace muster
