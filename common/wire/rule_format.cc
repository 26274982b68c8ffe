#include <algorithm>
#include <cmath>

#include "common/base/units.h"
#include "common/wire/rules.h"
#include "fmt/format.h"

namespace muster {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Digits without an exponent, which no parser takes; as many as the value needs to come back.
std::string FixedDigits(double value) {
  for (int decimals = 0; decimals < 18; ++decimals) {
    std::string text = fmt::format("{:.{}f}", value, decimals);
    if (std::stod(text) == value) return text;
  }
  return fmt::format("{:.18f}", value);
}

std::string FormatRate(double rate) {
  if (!std::isfinite(rate)) return "n/a";
  for (const auto& [scale, name] : {std::pair{1e6, "M"}, std::pair{1e3, "k"}}) {
    const double scaled = rate / scale;
    if (scaled >= 1 && scaled == std::floor(scaled)) return fmt::format("{:.0f}{}/s", scaled, name);
  }
  const double per_minute = rate * 60;
  if (rate < 1 && per_minute == std::floor(per_minute)) return fmt::format("{:.0f}/min", per_minute);
  return FixedDigits(rate) + "/s";
}

std::string FormatShare(double share) {
  if (!std::isfinite(share)) return "n/a";
  for (int decimals = 0; decimals < 18; ++decimals) {
    std::string text = fmt::format("{:.{}f}%", share * 100, decimals);
    if (const auto back = ParsePercent(text); back.ok() && *back == share) return text;
  }
  return FormatPercent(share);
}

// Text that YAML would take for something else, or that ends early inside {} and [], is quoted.
std::string YamlText(const std::string& text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' || c == '.' ||
           c == '_' || c == '-' || c == '+' || c == '%';
  };
  const bool starts_well = !text.empty() && text.front() != '-' && text.front() != '%' && text.front() != '.';
  const bool reserved = text == "null" || text == "Null" || text == "NULL";
  if (starts_well && !reserved && std::all_of(text.begin(), text.end(), plain)) return text;
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += fmt::format("\\{}", c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out.push_back(c);
    }
  }
  return out + '"';
}

std::string FormatWhole(v1::Unit unit, uint64_t value) {
  switch (unit) {
    case v1::UNIT_BYTES:
      return FormatSize(value);
    case v1::UNIT_DURATION:
      return FormatDuration(static_cast<Nanos>(value));
    case v1::UNIT_PASSES:
      return fmt::format("{}x", value);
    default:
      return fmt::format("{}", value);
  }
}

std::string FormatReal(v1::Unit unit, double value) {
  if (unit == v1::UNIT_RATE) return FormatRate(value);
  if (unit == v1::UNIT_PERCENT) return FormatShare(value);
  return std::isfinite(value) ? FixedDigits(value) : "n/a";
}

// `{key: value, ...}`; secrets stay hidden below it too.
std::string FormatMessage(const Message& message);

// index < 0: the singular field.
std::string FormatOne(const Message& m, const FieldDescriptor& f, int index) {
  const v1::Rule& rule = RuleOf(f).rule;
  if (rule.secret()) return "***";
  const Reflection& r = *m.GetReflection();
  const bool one = index < 0;
  switch (f.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return (one ? r.GetBool(m, &f) : r.GetRepeatedBool(m, &f, index)) ? "true" : "false";
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumText(*(one ? r.GetEnum(m, &f) : r.GetRepeatedEnum(m, &f, index)));
    case FieldDescriptor::CPPTYPE_STRING:
      return YamlText(one ? r.GetString(m, &f) : r.GetRepeatedString(m, &f, index));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return FormatReal(rule.unit(), one ? r.GetDouble(m, &f) : r.GetRepeatedDouble(m, &f, index));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return FormatReal(rule.unit(), one ? r.GetFloat(m, &f) : r.GetRepeatedFloat(m, &f, index));
    case FieldDescriptor::CPPTYPE_UINT64:
      return FormatWhole(rule.unit(), one ? r.GetUInt64(m, &f) : r.GetRepeatedUInt64(m, &f, index));
    case FieldDescriptor::CPPTYPE_UINT32:
      return FormatWhole(rule.unit(), one ? r.GetUInt32(m, &f) : r.GetRepeatedUInt32(m, &f, index));
    case FieldDescriptor::CPPTYPE_INT64: {
      const int64_t value = one ? r.GetInt64(m, &f) : r.GetRepeatedInt64(m, &f, index);
      return value < 0 ? fmt::format("{}", value) : FormatWhole(rule.unit(), static_cast<uint64_t>(value));
    }
    case FieldDescriptor::CPPTYPE_INT32: {
      const int32_t value = one ? r.GetInt32(m, &f) : r.GetRepeatedInt32(m, &f, index);
      return value < 0 ? fmt::format("{}", value) : FormatWhole(rule.unit(), static_cast<uint64_t>(value));
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return FormatMessage(one ? r.GetMessage(m, &f) : r.GetRepeatedMessage(m, &f, index));
  }
  return {};
}

std::string FormatMap(const Message& m, const FieldDescriptor& f) {
  const Reflection& r = *m.GetReflection();
  const FieldDescriptor& key = *f.message_type()->map_key();
  const FieldDescriptor& value = *f.message_type()->map_value();
  std::vector<std::pair<std::string, std::string>> entries;
  for (int i = 0; i < r.FieldSize(m, &f); ++i) {
    const Message& entry = r.GetRepeatedMessage(m, &f, i);
    entries.emplace_back(FormatOne(entry, key, -1), FormatOne(entry, value, -1));
  }
  std::sort(entries.begin(), entries.end());  // maps have no order of their own
  std::string out = "{";
  for (const auto& [name, text] : entries) out += fmt::format("{}{}: {}", out.size() > 1 ? ", " : "", name, text);
  return out + "}";
}

// Whether a field must be written for a reader to get its value: a 0 is no default where the rule has another.
bool IsWorthWriting(const Message& message, const FieldDescriptor& field) {
  if (field.is_repeated()) return message.GetReflection()->FieldSize(message, &field) > 0;
  if (message.GetReflection()->HasField(message, &field)) return true;
  const v1::Rule& rule = RuleOf(field).rule;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
    case FieldDescriptor::CPPTYPE_ENUM:  // 0 is "not specified"
      return false;
    case FieldDescriptor::CPPTYPE_STRING:
      return rule.required();
    default:
      return !field.has_presence() && (rule.required() || !rule.default_().empty());
  }
}

std::string FormatMessage(const Message& message) {
  const auto& type = *message.GetDescriptor();
  std::string out = "{";
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (!IsWorthWriting(message, field)) continue;
    out += fmt::format("{}{}: {}", out.size() > 1 ? ", " : "", field.name(), FormatField(message, field));
  }
  return out + "}";
}

}  // namespace

std::string FormatElement(const Message& message, const FieldDescriptor& field, int index) {
  return FormatOne(message, field, index);
}

std::string FormatField(const Message& message, const FieldDescriptor& field) {
  if (RuleOf(field).rule.secret()) return "***";
  if (field.is_map()) return FormatMap(message, field);
  if (!field.is_repeated()) return FormatOne(message, field, -1);
  std::string out = "[";
  const int size = message.GetReflection()->FieldSize(message, &field);
  for (int i = 0; i < size; ++i) out += (i > 0 ? ", " : "") + FormatOne(message, field, i);
  return out + "]";
}

}  // namespace muster
