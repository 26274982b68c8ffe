#pragma once
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "muster/v1/options.pb.h"

namespace muster {

// The `rule` of a field with its limits parsed once (cached per descriptor; thread-safe).
struct FieldRule {
  v1::Rule rule;
  // In the base unit; the length of text and bytes, the number of elements of maps and repeated messages. Of repeated
  // scalars it is each element's; their number is rule.max_items.
  std::optional<double> min, max;
};
const FieldRule& RuleOf(const google::protobuf::FieldDescriptor& field);

// Types one YAML scalar by the field's rule and type and stores it (for repeated fields: appends). Typed errors
// UNIT_SYNTAX, UNIT_RANGE, ENUM_UNKNOWN (with the choices and a did-you-mean) without a place: the binder adds it.
absl::Status SetScalar(google::protobuf::Message& message, const google::protobuf::FieldDescriptor& field,
                       std::string_view text);

// A field's value as it would be written in YAML ("4KiB", "70%", "random"); secrets are "***".
std::string FormatField(const google::protobuf::Message& message, const google::protobuf::FieldDescriptor& field);

// The same of one element of a repeated scalar field.
std::string FormatElement(const google::protobuf::Message& message, const google::protobuf::FieldDescriptor& field,
                          int index);

// Enum value names as written in YAML: "PATTERN_RANDOM" -> "random".
std::string EnumText(const google::protobuf::EnumValueDescriptor& value);

// Checks every field of a message that came from elsewhere against its rule: limits, lengths, enum values known and
// not unspecified where required, no oneof left empty. Numbers without presence must keep to their limits, so a field
// with a smallest value above 0 cannot be left out; an `optional` one may be absent or 0. Typed error MESSAGE_INVALID
// whose place is the field path. Cheap: no allocation when everything is right (but for maps, which no wire message
// has). Thread-safe.
absl::Status ValidateMessage(const google::protobuf::Message& message);

// The nearest of `choices`: at most two edits away (one for texts of up to three characters; a swap of neighbours is
// one edit), or one text is the beginning of the other. Empty when nothing is near.
std::string DidYouMean(std::string_view given, const std::vector<std::string>& choices);

// A user's text in quotes, made safe for one line of output: control characters escaped, cut after 40 characters.
std::string QuoteText(std::string_view text);

}  // namespace muster
