#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include "absl/status/statusor.h"
#include "muster/v1/options.pb.h"

namespace muster {

// The `rule` of a field with its limits parsed once (cached per descriptor; thread-safe).
struct FieldRule {
  v1::Rule rule;
  std::optional<double> min, max;  // in the base unit; lengths for text, bytes, maps and repeated fields
};
const FieldRule& RuleOf(const google::protobuf::FieldDescriptor& field);

// Types one YAML scalar by the field's rule and type and stores it (for repeated fields: appends). Typed errors
// UNIT_SYNTAX, UNIT_RANGE, ENUM_UNKNOWN (with the choices and a did-you-mean) without a place: the binder adds it.
absl::Status SetScalar(google::protobuf::Message& message, const google::protobuf::FieldDescriptor& field,
                       std::string_view text);

// A field's value as it would be written in YAML ("4KiB", "70%", "random"); secrets are "***".
std::string FormatField(const google::protobuf::Message& message, const google::protobuf::FieldDescriptor& field);

// Enum value names as written in YAML: "PATTERN_RANDOM" -> "random".
std::string EnumText(const google::protobuf::EnumValueDescriptor& value);

// Checks every field of a message that came from elsewhere against its rule: limits, lengths, enum values known and
// not unspecified where required, depth. Typed error MESSAGE_INVALID whose place is the field path. Cheap: no
// allocation when everything is right.
absl::Status ValidateMessage(const google::protobuf::Message& message);

// Levenshtein distance <= 2 (or a prefix) among `choices`; empty when nothing is near.
std::string DidYouMean(std::string_view given, const std::vector<std::string>& choices);

}  // namespace muster
