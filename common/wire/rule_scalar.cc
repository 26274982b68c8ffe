#include <charconv>
#include <cmath>

#include "common/base/status.h"
#include "common/base/units.h"
#include "common/wire/rules.h"
#include "fmt/format.h"

namespace muster {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

absl::Status Syntax(std::string message) {
  return MakeError(absl::StatusCode::kInvalidArgument, {.code = "UNIT_SYNTAX", .message = std::move(message)});
}
absl::Status Range(std::string message) {
  return MakeError(absl::StatusCode::kInvalidArgument, {.code = "UNIT_RANGE", .message = std::move(message)});
}

// "from 1 to 4096", "at least 512B", "at most 1h".
std::string LimitText(const v1::Rule& rule) {
  if (!rule.min().empty() && !rule.max().empty()) return fmt::format("from {} to {}", rule.min(), rule.max());
  if (!rule.min().empty()) return fmt::format("at least {}", rule.min());
  return fmt::format("at most {}", rule.max());
}

absl::Status CheckLimits(const FieldRule& rule, long double value, std::string_view text) {
  if ((rule.min && value < static_cast<long double>(*rule.min)) ||
      (rule.max && value > static_cast<long double>(*rule.max))) {
    return Range(fmt::format("{} is out of range: it must be {}", QuoteText(text), LimitText(rule.rule)));
  }
  return absl::OkStatus();
}

// One limit, one message: where the parser's own is passed, the field's is told, which is the tighter one.
absl::Status Limited(const absl::Status& parsed, const FieldRule& rule, std::string_view text) {
  if ((!rule.min && !rule.max) || GetErrorInfo(parsed).code != "UNIT_RANGE") return parsed;
  return Range(fmt::format("{} is out of range: it must be {}", QuoteText(text), LimitText(rule.rule)));
}

// ---- Storing: sets a singular field, appends to a repeated one.

void StoreUnsigned(Message& m, const FieldDescriptor& f, uint64_t value) {
  const Reflection& r = *m.GetReflection();
  switch (f.cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT64:
      f.is_repeated() ? r.AddUInt64(&m, &f, value) : r.SetUInt64(&m, &f, value);
      return;
    case FieldDescriptor::CPPTYPE_UINT32:
      f.is_repeated() ? r.AddUInt32(&m, &f, static_cast<uint32_t>(value))
                      : r.SetUInt32(&m, &f, static_cast<uint32_t>(value));
      return;
    case FieldDescriptor::CPPTYPE_INT64:
      f.is_repeated() ? r.AddInt64(&m, &f, static_cast<int64_t>(value))
                      : r.SetInt64(&m, &f, static_cast<int64_t>(value));
      return;
    default:
      f.is_repeated() ? r.AddInt32(&m, &f, static_cast<int32_t>(value))
                      : r.SetInt32(&m, &f, static_cast<int32_t>(value));
      return;
  }
}

uint64_t LargestOf(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT64:
      return UINT64_MAX;
    case FieldDescriptor::CPPTYPE_UINT32:
      return UINT32_MAX;
    case FieldDescriptor::CPPTYPE_INT64:
      return INT64_MAX;
    default:
      return INT32_MAX;
  }
}

absl::Status SetUnsigned(Message& m, const FieldDescriptor& f, const FieldRule& rule, uint64_t value,
                         std::string_view text) {
  MUSTER_RETURN_IF_ERROR(CheckLimits(rule, static_cast<long double>(value), text));
  if (value > LargestOf(f)) {
    return Range(fmt::format("{} is out of range: it must be at most {}", QuoteText(text), LargestOf(f)));
  }
  StoreUnsigned(m, f, value);
  return absl::OkStatus();
}

absl::Status SetDouble(Message& m, const FieldDescriptor& f, const FieldRule& rule, double value,
                       std::string_view text) {
  MUSTER_RETURN_IF_ERROR(CheckLimits(rule, value, text));
  const Reflection& r = *m.GetReflection();
  f.is_repeated() ? r.AddDouble(&m, &f, value) : r.SetDouble(&m, &f, value);
  return absl::OkStatus();
}

// ---- Parsing

bool AllDigits(std::string_view text) {
  return text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Whole numbers are written in one way only: YAML itself reads 010, 0x10, 1_000 and 1e3 as numbers, each differently
// by version, so none of them is taken.
absl::StatusOr<uint64_t> ParseWhole(std::string_view text) {
  if (text.empty()) return Syntax("an empty text is not a whole number; write for example 16");
  if (text.size() > 1 && text.front() == '0' && AllDigits(text)) {
    const size_t first = std::min(text.find_first_not_of('0'), text.size() - 1);
    return Syntax(
        fmt::format("{} has a leading zero, which some read as octal; write {}", QuoteText(text), text.substr(first)));
  }
  if (!AllDigits(text)) {
    return Syntax(fmt::format("{} is not a whole number; write digits only, for example 16", QuoteText(text)));
  }
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    return Range(fmt::format("{} is out of range: it must be at most {}", QuoteText(text), UINT64_MAX));
  }
  return value;
}

absl::Status SetNumber(Message& m, const FieldDescriptor& f, const FieldRule& rule, std::string_view text) {
  switch (rule.rule.unit()) {
    case v1::UNIT_BYTES: {
      const auto bytes = ParseSize(text);
      return bytes.ok() ? SetUnsigned(m, f, rule, *bytes, text) : Limited(bytes.status(), rule, text);
    }
    case v1::UNIT_DURATION: {
      const auto nanos = ParseDuration(text);
      if (!nanos.ok()) return Limited(nanos.status(), rule, text);
      return SetUnsigned(m, f, rule, static_cast<uint64_t>(*nanos), text);
    }
    case v1::UNIT_PASSES: {
      if (text == "0x") return SetUnsigned(m, f, rule, 0, text);  // "never"; units know passes from 1
      const auto passes = ParsePasses(text);
      return passes.ok() ? SetUnsigned(m, f, rule, *passes, text) : Limited(passes.status(), rule, text);
    }
    default: {
      MUSTER_ASSIGN_OR_RETURN(const uint64_t value, ParseWhole(text));
      return SetUnsigned(m, f, rule, value, text);
    }
  }
}

absl::Status SetReal(Message& m, const FieldDescriptor& f, const FieldRule& rule, std::string_view text) {
  double value = 0;
  if (rule.rule.unit() == v1::UNIT_RATE) {
    const auto rate = ParseRate(text);
    if (!rate.ok()) return Limited(rate.status(), rule, text);
    value = *rate;
  } else if (rule.rule.unit() == v1::UNIT_PERCENT) {
    MUSTER_ASSIGN_OR_RETURN(value, ParsePercent(text));
  } else {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
    if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) {
      return Syntax(fmt::format("{} is not a number; write for example 0.5", QuoteText(text)));
    }
  }
  return SetDouble(m, f, rule, value, text);
}

absl::Status SetBool(Message& m, const FieldDescriptor& f, std::string_view text) {
  if (text != "true" && text != "false") {
    std::string message = fmt::format("{} is neither true nor false", QuoteText(text));
    for (const std::string_view word : {"yes", "Yes", "YES", "y", "Y", "on", "On", "ON", "True", "TRUE", "1"}) {
      if (text == word) message += "; write true";
    }
    for (const std::string_view word : {"no", "No", "NO", "n", "N", "off", "Off", "OFF", "False", "FALSE", "0"}) {
      if (text == word) message += "; write false";
    }
    return Syntax(std::move(message));
  }
  const Reflection& r = *m.GetReflection();
  f.is_repeated() ? r.AddBool(&m, &f, text == "true") : r.SetBool(&m, &f, text == "true");
  return absl::OkStatus();
}

absl::Status SetEnum(Message& m, const FieldDescriptor& f, std::string_view text) {
  const EnumDescriptor& type = *f.enum_type();
  std::vector<std::string> choices;
  for (int i = 0; i < type.value_count(); ++i) {
    const auto& value = *type.value(i);
    if (value.number() == 0) continue;  // _UNSPECIFIED is what a field left out has
    choices.push_back(EnumText(value));
    if (choices.back() != text) continue;
    const Reflection& r = *m.GetReflection();
    f.is_repeated() ? r.AddEnum(&m, &f, &value) : r.SetEnum(&m, &f, &value);
    return absl::OkStatus();
  }
  const std::string near = DidYouMean(text, choices);
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.code = "ENUM_UNKNOWN",
                    .message = fmt::format("{} is not one of {}", QuoteText(text), fmt::join(choices, ", ")),
                    .next = near.empty() ? "" : fmt::format("Did you mean \"{}\"?", near)});
}

bool IsNameCharacter(char c, bool first) {
  const bool letter_or_digit = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
  return letter_or_digit || (!first && (c == '.' || c == '_' || c == '-'));
}

absl::Status CheckText(v1::Unit unit, std::string_view text) {
  switch (unit) {
    case v1::UNIT_LOAD:
      return ParseLoad(text).status();
    case v1::UNIT_NAME:
      if (text.size() > 64)
        return Range(fmt::format("{} is too long: a name has at most 64 characters", QuoteText(text)));
      for (size_t i = 0; i < text.size(); ++i) {
        if (!IsNameCharacter(text[i], i == 0)) {
          return Syntax(
              fmt::format("{} is not a name; use letters, digits, \".\", \"_\" and \"-\", a letter or digit first",
                          QuoteText(text)));
        }
      }
      if (text.empty()) return Syntax("a name must not be empty");
      return absl::OkStatus();
    case v1::UNIT_PATH:
      if (!text.starts_with('/')) {
        return Syntax(fmt::format("{} is not an absolute path; it must begin with \"/\"", QuoteText(text)));
      }
      for (const char c : text) {
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          return Syntax(fmt::format("{} holds a control character", QuoteText(text)));
        }
      }
      return absl::OkStatus();
    default:
      return absl::OkStatus();
  }
}

absl::Status SetText(Message& m, const FieldDescriptor& f, const FieldRule& rule, std::string_view text) {
  MUSTER_RETURN_IF_ERROR(CheckText(rule.rule.unit(), text));
  if ((rule.min && static_cast<double>(text.size()) < *rule.min) ||
      (rule.max && static_cast<double>(text.size()) > *rule.max)) {
    return Range(fmt::format("{} has {} bytes: it must have {}", QuoteText(text), text.size(), LimitText(rule.rule)));
  }
  const Reflection& r = *m.GetReflection();
  f.is_repeated() ? r.AddString(&m, &f, std::string(text)) : r.SetString(&m, &f, std::string(text));
  return absl::OkStatus();
}

}  // namespace

absl::Status SetScalar(Message& message, const FieldDescriptor& field, std::string_view text) {
  const FieldRule& rule = RuleOf(field);
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return SetBool(message, field, text);
    case FieldDescriptor::CPPTYPE_ENUM:
      return SetEnum(message, field, text);
    case FieldDescriptor::CPPTYPE_STRING:
      return SetText(message, field, rule, text);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return SetReal(message, field, rule, text);
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
      return SetNumber(message, field, rule, text);
    default:
      return MakeError(absl::StatusCode::kInternal,
                       {.code = "WRONG_TYPE", .message = fmt::format("{} takes no single value", field.name())});
  }
}

}  // namespace muster
