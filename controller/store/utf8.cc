#include "controller/store/utf8.h"

#include <google/protobuf/descriptor.h>

#include <vector>

namespace muster {
namespace {

// Length of the valid sequence at the front, 0 if there is none. Overlong forms, surrogates and what lies beyond
// U+10FFFF are not valid.
size_t SequenceLength(std::string_view text) {
  auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  auto tail = [&](size_t i) { return (byte(i) & 0xc0) == 0x80; };
  if (first >= 0xc2 && first <= 0xdf) return tail(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const bool overlong = first == 0xe0 && byte(1) < 0xa0;
    const bool surrogate = first == 0xed && byte(1) > 0x9f;
    return tail(1) && tail(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const bool overlong = first == 0xf0 && byte(1) < 0x90;
    const bool beyond = first == 0xf4 && byte(1) > 0x8f;
    return tail(1) && tail(2) && tail(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::string ToUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    out += length == 0 ? std::string_view("?") : text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

void MakeUtf8(google::protobuf::Message& message) {
  using google::protobuf::FieldDescriptor;
  const auto* reflection = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const int size = field->is_repeated() ? reflection->FieldSize(message, field) : 0;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (!field->is_repeated()) MakeUtf8(*reflection->MutableMessage(&message, field));
      for (int i = 0; i < size; ++i) MakeUtf8(*reflection->MutableRepeatedMessage(&message, field, i));
    } else if (field->type() == FieldDescriptor::TYPE_STRING) {
      if (!field->is_repeated()) {
        reflection->SetString(&message, field, ToUtf8(reflection->GetString(message, field)));
      }
      for (int i = 0; i < size; ++i) {
        reflection->SetRepeatedString(&message, field, i, ToUtf8(reflection->GetRepeatedString(message, field, i)));
      }
    }
  }
}

}  // namespace muster
