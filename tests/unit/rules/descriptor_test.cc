// Every field of every message carries a rule that makes sense: the binder, validation, help and the option table have
// nothing else to go by.
#include <google/protobuf/dynamic_message.h>

#include <catch2/catch.hpp>

#include "common/base/status.h"
#include "common/wire/rules.h"
#include "muster/v1/agent_link.pb.h"
#include "muster/v1/campaign.pb.h"
#include "muster/v1/common.pb.h"
#include "muster/v1/controller_api.pb.h"
#include "muster/v1/histogram.pb.h"
#include "muster/v1/report.pb.h"
#include "muster/v1/result.pb.h"

namespace muster {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;

std::vector<const FileDescriptor*> Files() {
  return {v1::Rule::descriptor()->file(),          v1::Campaign::descriptor()->file(),
          v1::PhaseKey::descriptor()->file(),      v1::Histogram::descriptor()->file(),
          v1::IntervalDelta::descriptor()->file(), v1::StepResult::descriptor()->file(),
          v1::AgentMessage::descriptor()->file(),  v1::RunEvent::descriptor()->file()};
}

void AddMessages(const Descriptor& type, std::vector<const Descriptor*>& out) {
  if (!type.options().map_entry()) out.push_back(&type);
  for (int i = 0; i < type.nested_type_count(); ++i) AddMessages(*type.nested_type(i), out);
}

std::vector<const Descriptor*> Messages() {
  std::vector<const Descriptor*> out;
  for (const FileDescriptor* file : Files()) {
    for (int i = 0; i < file->message_type_count(); ++i) AddMessages(*file->message_type(i), out);
  }
  return out;
}

TEST_CASE("the generated files are all of the package") {
  // A file that is added must be looked at here too.
  for (const FileDescriptor* file : Files()) {
    CHECK(file->package() == "muster.v1");
    for (int i = 0; i < file->dependency_count(); ++i) {
      const FileDescriptor* used = file->dependency(i);
      if (used->package() != "muster.v1") continue;
      const auto files = Files();
      INFO(used->name());
      CHECK(std::find(files.begin(), files.end(), used) != files.end());
    }
  }
}

TEST_CASE("every field has a rule with a help text") {
  size_t fields = 0;
  for (const Descriptor* type : Messages()) {
    for (int i = 0; i < type->field_count(); ++i) {
      const FieldDescriptor& field = *type->field(i);
      INFO(field.full_name());
      ++fields;
      CHECK(field.options().HasExtension(v1::rule));
      const v1::Rule& rule = RuleOf(field).rule;
      CHECK_FALSE(rule.help().empty());
      CHECK(rule.help().find('\n') == std::string::npos);
    }
  }
  CHECK(fields > 200);
}

TEST_CASE("limits parse and are in order") {
  for (const Descriptor* type : Messages()) {
    for (int i = 0; i < type->field_count(); ++i) {
      const FieldDescriptor& field = *type->field(i);
      const FieldRule& rule = RuleOf(field);
      INFO(field.full_name() << " [" << rule.rule.min() << ", " << rule.rule.max() << "]");
      CHECK(rule.min.has_value() == !rule.rule.min().empty());
      CHECK(rule.max.has_value() == !rule.rule.max().empty());
      if (rule.min && rule.max) CHECK(*rule.min <= *rule.max);
    }
  }
}

TEST_CASE("what can grow is bounded") {
  for (const Descriptor* type : Messages()) {
    if (type->file() == v1::Rule::descriptor()->file()) continue;  // options of descriptors do not travel
    for (int i = 0; i < type->field_count(); ++i) {
      const FieldDescriptor& field = *type->field(i);
      const FieldRule& rule = RuleOf(field);
      INFO(field.full_name());
      const bool message = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
      if (field.is_repeated()) CHECK((message ? rule.max.has_value() : rule.rule.max_items() > 0));
      if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
        CHECK((rule.max.has_value() || rule.rule.unit() == v1::UNIT_NAME));
      }
    }
  }
}

TEST_CASE("units stand on fields that can hold them, defaults parse") {
  google::protobuf::DynamicMessageFactory factory;
  for (const Descriptor* type : Messages()) {
    const std::unique_ptr<google::protobuf::Message> message(factory.GetPrototype(type)->New());
    for (int i = 0; i < type->field_count(); ++i) {
      const FieldDescriptor& field = *type->field(i);
      const v1::Rule& rule = RuleOf(field).rule;
      INFO(field.full_name());
      switch (rule.unit()) {
        case v1::UNIT_RATE:
        case v1::UNIT_PERCENT:
          CHECK(field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE);
          break;
        case v1::UNIT_BYTES:
        case v1::UNIT_DURATION:
          CHECK(field.cpp_type() == FieldDescriptor::CPPTYPE_UINT64);
          break;
        case v1::UNIT_PASSES:
          CHECK(field.cpp_type() == FieldDescriptor::CPPTYPE_UINT32);
          break;
        case v1::UNIT_LOAD:
        case v1::UNIT_PATH:
        case v1::UNIT_NAME:
          CHECK(field.cpp_type() == FieldDescriptor::CPPTYPE_STRING);
          break;
        default:
          break;
      }
      CHECK_FALSE((rule.required() && !rule.default_().empty()));
      if (rule.default_().empty()) continue;
      const absl::Status status = SetScalar(*message, field, rule.default_());
      INFO(FormatError(status));
      CHECK(status.ok());
    }
  }
}

TEST_CASE("a campaign's scalar that may be left out has a default, presence or a meaning for nothing") {
  // Without one of the three a reader could not tell "left out" from 0.
  for (const Descriptor* type : Messages()) {
    if (type->file() != v1::Campaign::descriptor()->file()) continue;
    for (int i = 0; i < type->field_count(); ++i) {
      const FieldDescriptor& field = *type->field(i);
      const v1::Rule& rule = RuleOf(field).rule;
      if (field.is_repeated() || field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE || rule.required()) continue;
      INFO(field.full_name());
      const bool text = field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
      const bool choice = field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM;  // has a zero that says so
      CHECK((!rule.default_().empty() || field.has_optional_keyword() || text || choice));
    }
  }
}

TEST_CASE("the zero of every enum is _UNSPECIFIED and names carry the prefix") {
  for (const FileDescriptor* file : Files()) {
    for (int i = 0; i < file->enum_type_count(); ++i) {
      const EnumDescriptor& type = *file->enum_type(i);
      INFO(type.full_name());
      REQUIRE(type.FindValueByNumber(0) != nullptr);
      CHECK(EnumText(*type.FindValueByNumber(0)) == "unspecified");
      for (int v = 0; v < type.value_count(); ++v) {
        CHECK(EnumText(*type.value(v)).size() < type.value(v)->name().size());
      }
    }
  }
}

}  // namespace
}  // namespace muster
