#pragma once
#include <string>

#include "absl/status/status.h"
#include "common/base/status.h"

namespace muster {

// What decoders and validation answer for a message that cannot be meant: MESSAGE_INVALID with the field path.
inline absl::Status InvalidField(std::string place, std::string message) {
  return MakeError(absl::StatusCode::kInvalidArgument, {.code = "MESSAGE_INVALID",
                                                        .place = std::move(place),
                                                        .message = std::move(message),
                                                        .next = "The sender runs another or a damaged version."});
}

}  // namespace muster
