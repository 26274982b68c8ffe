#pragma once
#include <google/protobuf/message.h>

#include <string>
#include <string_view>

namespace muster {

// Every byte that is no part of valid UTF-8 (RFC 3629) becomes '?'.
std::string ToUtf8(std::string_view text);

// The same for all string fields of a message, nested ones too. A protobuf string with other bytes is written without
// complaint and cannot be read again; a host name, a path or a system's message must not make a run unreadable.
void MakeUtf8(google::protobuf::Message& message);

}  // namespace muster
