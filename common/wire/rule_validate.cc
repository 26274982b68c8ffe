#include <algorithm>
#include <memory>
#include <shared_mutex>
#include <unordered_map>

#include "common/base/units.h"
#include "common/wire/invalid.h"
#include "common/wire/rules.h"
#include "fmt/format.h"

namespace muster {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;
using google::protobuf::Reflection;

struct MessageCheck;

// One field's rule, ready to be compared with.
struct FieldCheck {
  const FieldDescriptor* field = nullptr;
  FieldDescriptor::CppType type = FieldDescriptor::CPPTYPE_MESSAGE;
  v1::Unit unit = v1::UNIT_UNSPECIFIED;
  bool list = false;
  bool required = false;
  bool presence = false;      // of a scalar: absent or 0 is "left out"
  bool limits_items = false;  // min and max are about the number of elements
  bool has_min = false, has_max = false;
  long double min = 0, max = 0;  // 64 bits of mantissa: exact for every integer
  int max_items = 0;             // 0: no limit
  const EnumDescriptor* enum_type = nullptr;
  const MessageCheck* nested = nullptr;
};

struct MessageCheck {
  std::vector<FieldCheck> fields;
  std::vector<const OneofDescriptor*> oneofs;
};

// What is wrong, built up only when something is.
struct Failure {
  std::string path;
  std::string message;
};

bool Fail(Failure& failure, const FieldDescriptor& field, int index, std::string message) {
  failure.path = index < 0 ? field.name() : fmt::format("{}[{}]", field.name(), index);
  failure.message = std::move(message);
  return false;
}

// ---- Checking. Every function returns whether all is right and allocates only if not.

bool CheckNumber(const FieldCheck& c, long double value, int index, Failure& failure) {
  if (c.presence && value == 0) return true;
  // Written so that NaN fails.
  if ((!c.has_min || value >= c.min) && (!c.has_max || value <= c.max) && value == value) return true;
  const v1::Rule& rule = RuleOf(*c.field).rule;
  return Fail(failure, *c.field, index,
              fmt::format("{} is outside its limits [{}, {}]", static_cast<double>(value), rule.min(), rule.max()));
}

bool NameCharacter(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

bool CheckText(const FieldCheck& c, const std::string& text, int index, Failure& failure) {
  const auto size = static_cast<long double>(text.size());
  if ((c.has_min && size < c.min) || (c.has_max && size > c.max)) {
    const v1::Rule& rule = RuleOf(*c.field).rule;
    return Fail(failure, *c.field, index,
                fmt::format("{} bytes is outside its limits [{}, {}]", text.size(), rule.min(), rule.max()));
  }
  if (text.empty()) return !c.required || Fail(failure, *c.field, index, "is missing");
  switch (c.unit) {
    case v1::UNIT_LOAD:
      if (ParseLoad(text).ok()) return true;
      return Fail(failure, *c.field, index, QuoteText(text) + " is not a load");
    case v1::UNIT_NAME:
      if (text.size() <= 64 && text.front() != '.' && text.front() != '_' && text.front() != '-' &&
          std::all_of(text.begin(), text.end(), NameCharacter)) {
        return true;
      }
      return Fail(failure, *c.field, index, QuoteText(text) + " is not a name");
    case v1::UNIT_PATH:
      if (text.front() == '/' &&
          std::none_of(text.begin(), text.end(), [](char ch) { return static_cast<unsigned char>(ch) < 0x20; })) {
        return true;
      }
      return Fail(failure, *c.field, index, QuoteText(text) + " is not an absolute path");
    default:
      return true;
  }
}

bool CheckEnum(const FieldCheck& c, int value, int index, Failure& failure) {
  if (value == 0) return !c.required || Fail(failure, *c.field, index, "is not specified");
  if (c.enum_type->FindValueByNumber(value) != nullptr) return true;
  return Fail(failure, *c.field, index, fmt::format("{} is not a known {}", value, c.enum_type->name()));
}

bool CheckMessage(const Message& message, const MessageCheck& check, Failure& failure);

bool CheckNested(const FieldCheck& c, const Message& message, int index, Failure& failure) {
  if (c.nested == nullptr || CheckMessage(message, *c.nested, failure)) return true;
  failure.path = (index < 0 ? c.field->name() : fmt::format("{}[{}]", c.field->name(), index)) + "." + failure.path;
  return false;
}

bool CheckSingular(const Message& m, const Reflection& r, const FieldCheck& c, Failure& failure) {
  const FieldDescriptor* f = c.field;
  switch (c.type) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      if (!r.HasField(m, f)) return !c.required || Fail(failure, *f, -1, "is missing");
      return CheckNested(c, r.GetMessage(m, f), -1, failure);
    case FieldDescriptor::CPPTYPE_STRING: {
      std::string scratch;  // never used by generated messages
      return CheckText(c, r.GetStringReference(m, f, &scratch), -1, failure);
    }
    case FieldDescriptor::CPPTYPE_ENUM:
      return CheckEnum(c, r.GetEnumValue(m, f), -1, failure);
    case FieldDescriptor::CPPTYPE_UINT64:
      return CheckNumber(c, r.GetUInt64(m, f), -1, failure);
    case FieldDescriptor::CPPTYPE_UINT32:
      return CheckNumber(c, r.GetUInt32(m, f), -1, failure);
    case FieldDescriptor::CPPTYPE_INT64:
      return CheckNumber(c, r.GetInt64(m, f), -1, failure);
    case FieldDescriptor::CPPTYPE_INT32:
      return CheckNumber(c, r.GetInt32(m, f), -1, failure);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return CheckNumber(c, r.GetDouble(m, f), -1, failure);
    default:
      return true;
  }
}

bool CheckElement(const Message& m, const Reflection& r, const FieldCheck& c, int i, Failure& failure) {
  const FieldDescriptor* f = c.field;
  switch (c.type) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return CheckNested(c, r.GetRepeatedMessage(m, f, i), i, failure);
    case FieldDescriptor::CPPTYPE_STRING: {
      std::string scratch;
      return CheckText(c, r.GetRepeatedStringReference(m, f, i, &scratch), i, failure);
    }
    case FieldDescriptor::CPPTYPE_ENUM:
      return CheckEnum(c, r.GetRepeatedEnumValue(m, f, i), i, failure);
    case FieldDescriptor::CPPTYPE_UINT64:
      return CheckNumber(c, r.GetRepeatedUInt64(m, f, i), i, failure);
    case FieldDescriptor::CPPTYPE_UINT32:
      return CheckNumber(c, r.GetRepeatedUInt32(m, f, i), i, failure);
    case FieldDescriptor::CPPTYPE_INT64:
      return CheckNumber(c, r.GetRepeatedInt64(m, f, i), i, failure);
    case FieldDescriptor::CPPTYPE_INT32:
      return CheckNumber(c, r.GetRepeatedInt32(m, f, i), i, failure);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return CheckNumber(c, r.GetRepeatedDouble(m, f, i), i, failure);
    default:
      return true;
  }
}

bool CheckList(const Message& m, const Reflection& r, const FieldCheck& c, Failure& failure) {
  const int size = r.FieldSize(m, c.field);
  const bool few = c.limits_items && c.has_min && size < c.min;
  const bool many = (c.limits_items && c.has_max && size > c.max) || (c.max_items > 0 && size > c.max_items);
  if (few || many) {
    return Fail(failure, *c.field, -1, fmt::format("{} elements are too {}", size, few ? "few" : "many"));
  }
  if (c.type == FieldDescriptor::CPPTYPE_MESSAGE && c.nested == nullptr) return true;
  for (int i = 0; i < size; ++i) {
    if (!CheckElement(m, r, c, i, failure)) return false;
  }
  return true;
}

bool CheckMessage(const Message& message, const MessageCheck& check, Failure& failure) {
  const Reflection& reflection = *message.GetReflection();
  for (const OneofDescriptor* oneof : check.oneofs) {
    if (!reflection.HasOneof(message, oneof)) {
      failure.path = oneof->name();
      failure.message = "none of its forms is given";
      return false;
    }
  }
  for (const FieldCheck& field : check.fields) {
    const OneofDescriptor* oneof = field.field->real_containing_oneof();
    if (oneof != nullptr && !reflection.HasField(message, field.field)) continue;
    const bool right = field.list ? CheckList(message, reflection, field, failure)
                                  : CheckSingular(message, reflection, field, failure);
    if (!right) return false;
  }
  return true;
}

// ---- Compiling, once a message type.

class CheckCache {
 public:
  const MessageCheck& Of(const Descriptor& type) {
    {
      std::shared_lock lock(mutex_);
      if (const auto it = checks_.find(&type); it != checks_.end()) return *it->second;
    }
    std::unique_lock lock(mutex_);
    return Make(type);
  }

 private:
  // Stores the check before its fields are compiled, so that a type may contain itself.
  const MessageCheck& Make(const Descriptor& type) {
    auto [it, fresh] = checks_.try_emplace(&type);
    if (!fresh) return *it->second;
    it->second = std::make_unique<MessageCheck>();
    MessageCheck& check = *it->second;
    for (int i = 0; i < type.real_oneof_decl_count(); ++i) check.oneofs.push_back(type.oneof_decl(i));
    for (int i = 0; i < type.field_count(); ++i) {
      FieldCheck field = MakeField(*type.field(i));
      if (IsNeeded(field)) check.fields.push_back(field);
    }
    return check;
  }

  FieldCheck MakeField(const FieldDescriptor& field) {
    const FieldRule& rule = RuleOf(field);
    FieldCheck c;
    c.field = &field;
    c.type = field.cpp_type();
    c.unit = rule.rule.unit();
    c.list = field.is_repeated();
    c.required = rule.rule.required();
    c.presence = !c.list && field.has_optional_keyword();
    c.limits_items = c.list && c.type == FieldDescriptor::CPPTYPE_MESSAGE;
    c.has_min = rule.min.has_value();
    c.has_max = rule.max.has_value();
    c.min = rule.min.value_or(0);
    c.max = rule.max.value_or(0);
    c.max_items = static_cast<int>(rule.rule.max_items());
    if (c.type == FieldDescriptor::CPPTYPE_ENUM) c.enum_type = field.enum_type();
    if (c.type == FieldDescriptor::CPPTYPE_MESSAGE) c.nested = &Make(*field.message_type());
    return c;
  }

  static bool IsNeeded(const FieldCheck& c) {
    switch (c.type) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
      case FieldDescriptor::CPPTYPE_ENUM:
      case FieldDescriptor::CPPTYPE_DOUBLE:  // NaN is never right
        return true;
      case FieldDescriptor::CPPTYPE_BOOL:
        return c.max_items > 0;
      case FieldDescriptor::CPPTYPE_STRING:
        if (c.unit == v1::UNIT_NAME || c.unit == v1::UNIT_PATH || c.unit == v1::UNIT_LOAD || c.required) return true;
        break;
      default:
        break;
    }
    return c.has_min || c.has_max || c.max_items > 0;
  }

  std::shared_mutex mutex_;
  std::unordered_map<const Descriptor*, std::unique_ptr<MessageCheck>> checks_;
};

}  // namespace

absl::Status ValidateMessage(const Message& message) {
  static CheckCache& cache = *new CheckCache;  // never destroyed, as the descriptors it points to
  Failure failure;
  if (CheckMessage(message, cache.Of(*message.GetDescriptor()), failure)) return absl::OkStatus();
  return InvalidField(std::move(failure.path), std::move(failure.message));
}

}  // namespace muster
