// Whatever a campaign message holds, FormatField writes it in a way that is read back as the same message.
#include <fmt/format.h>
#include <google/protobuf/util/message_differencer.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "common/base/rng.h"
#include "common/base/units.h"
#include "common/wire/rules.h"
#include "tests/unit/campaign/campaign_fixture.h"

namespace muster {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Fills messages with random values that their rules allow.
class Generator {
 public:
  explicit Generator(uint64_t seed) : rng_(seed) {}

  void Fill(Message& message) {
    const Descriptor& type = *message.GetDescriptor();
    for (int i = 0; i < type.real_oneof_decl_count(); ++i) {
      const auto& oneof = *type.oneof_decl(i);
      FillField(message, *oneof.field(static_cast<int>(rng_.Below(static_cast<uint64_t>(oneof.field_count())))));
    }
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor& field = *type.field(i);
      if (field.real_containing_oneof() != nullptr) continue;
      // What may be left out is, now and then.
      if (field.has_presence() && !RuleOf(field).rule.required() && rng_.Below(3) == 0) continue;
      FillField(message, field);
    }
  }

 private:
  void FillField(Message& message, const FieldDescriptor& field) {
    if (RuleOf(field).rule.secret()) return;  // no campaign may hold it
    const auto& reflection = *message.GetReflection();
    const bool is_message = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (field.is_map()) {
      for (uint64_t i = 0, n = 1 + rng_.Below(3); i < n; ++i) {
        Message* entry = reflection.AddMessage(&message, &field);
        entry->GetReflection()->SetString(entry, field.message_type()->map_key(), fmt::format("{}{}", Name(), i));
        const FieldDescriptor& value = *field.message_type()->map_value();
        if (value.message_type() == nullptr) {
          entry->GetReflection()->SetString(entry, &value, Name());
        } else {
          Fill(*entry->GetReflection()->MutableMessage(entry, &value));
        }
      }
    } else if (field.is_repeated()) {
      const uint64_t least = RuleOf(field).rule.required() ? 1 : 0;
      for (uint64_t i = 0, n = least + rng_.Below(3); i < n; ++i) {
        is_message ? Fill(*reflection.AddMessage(&message, &field)) : Add(message, field);
      }
    } else {
      is_message ? Fill(*reflection.MutableMessage(&message, &field)) : Add(message, field);
    }
  }

  void Add(Message& message, const FieldDescriptor& field) {
    const std::string text = Text(field);
    const absl::Status status = SetScalar(message, field, text);
    INFO(field.full_name() << " " << text << " " << FormatError(status));
    REQUIRE(status.ok());
  }

  // A scalar as a user might write it.
  std::string Text(const FieldDescriptor& field) {
    const FieldRule& rule = RuleOf(field);
    const double max = rule.max.value_or(1e6);
    switch (rule.rule.unit()) {
      case v1::UNIT_BYTES:
        return fmt::format("{}", Number(rule.min.value_or(0), max));
      case v1::UNIT_DURATION:
        return fmt::format("{}ns", Number(rule.min.value_or(0), max));
      case v1::UNIT_RATE:
        return fmt::format("{}.{:03}/s", rng_.Below(1000) + 1, rng_.Below(1000));
      case v1::UNIT_PERCENT:
        return rng_.Below(4) == 0 ? "0%" : fmt::format("{}.{:03}%", rng_.Below(100), rng_.Below(1000));
      case v1::UNIT_LOAD:
        return fmt::format("{}T{}Q", rng_.Below(65535) + 1, rng_.Below(65535) + 1);
      case v1::UNIT_PASSES:
        return fmt::format("{}x", rng_.Below(101));
      case v1::UNIT_NAME:
        return Name();
      case v1::UNIT_PATH:
        return "/" + Words(false);
      default:
        break;
    }
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_BOOL:
        return rng_.Below(2) == 0 ? "false" : "true";
      case FieldDescriptor::CPPTYPE_ENUM:
        return EnumText(*field.enum_type()->value(
            1 + static_cast<int>(rng_.Below(static_cast<uint64_t>(field.enum_type()->value_count() - 1)))));
      case FieldDescriptor::CPPTYPE_STRING:
        return max <= 64 ? Name().substr(0, static_cast<size_t>(max)) : Words(true);
      default:
        return fmt::format("{}", Number(rule.min.value_or(0), max));
    }
  }

  // Of every magnitude, the edges often.
  uint64_t Number(double min, double max) {
    const auto low = static_cast<uint64_t>(min);
    const auto high = static_cast<uint64_t>(max);
    switch (rng_.Below(4)) {
      case 0:
        return low;
      case 1:
        return high;
      default:
        return low + (rng_.Next() >> rng_.Below(64)) % (high - low + 1);
    }
  }

  std::string Name() {
    static constexpr std::string_view kCharacters = "abXYZ019._-";
    std::string out = "n";
    for (uint64_t i = 0, n = rng_.Below(12); i < n; ++i) out += kCharacters[rng_.Below(kCharacters.size())];
    // Names that YAML would take for something else.
    static constexpr std::string_view kOdd[] = {"null", "Null", "true", "yes", "010", "1e3", "0x1F", "1.5", "NULL"};
    return rng_.Below(4) == 0 ? std::string(kOdd[rng_.Below(std::size(kOdd))]) : out;
  }

  std::string Words(bool any) {
    static constexpr std::string_view kPieces[] = {
        "a",  "null", "~", ": ", " #",  "- ", "'", "\"", "\\", "{", "}", "[",        "]",
        ", ", "&",    "*", "!",  "|",   ">",  "%", "@",  "`",  " ", "?", "\xC3\xA4", "x\xE2\x82\xAC",
        "/y", "true", "0", "<<", "---", "..."};
    static constexpr std::string_view kControls[] = {"\n", "\t", "\r\n", "\x01", "\x7f", "\n\n  "};
    std::string out = any ? "" : "p";
    for (uint64_t i = 0, n = 1 + rng_.Below(6); i < n; ++i) {
      out += any && rng_.Below(4) == 0 ? kControls[rng_.Below(std::size(kControls))]
                                       : kPieces[rng_.Below(std::size(kPieces))];
    }
    return out;
  }

  Rng rng_;
};

std::string ToYaml(const v1::Campaign& message) {
  std::string out;
  const auto& type = *v1::Campaign::descriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const auto& reflection = *message.GetReflection();
    const bool there = field.is_repeated() ? reflection.FieldSize(message, &field) > 0
                                           : !field.has_presence() || reflection.HasField(message, &field);
    if (there) out += fmt::format("{}: {}\n", field.name(), FormatField(message, field));
  }
  return out;
}

TEST_CASE("campaign messages come back from their text as they were") {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    v1::Campaign written;
    Generator(seed).Fill(written);
    const std::string yaml = ToYaml(written);
    INFO("seed " << seed << "\n" << yaml);
    const auto read = LoadCampaignText("c.yaml", yaml);
    INFO(FormatError(read.status()));
    REQUIRE(read.ok());
    // What was left out got its defaults: written again, nothing changes any more.
    const std::string again = ToYaml(read->message);
    const auto twice = LoadCampaignText("c.yaml", again);
    INFO(again << FormatError(twice.status()));
    REQUIRE(twice.ok());
    google::protobuf::util::MessageDifferencer differ;
    std::string difference;
    differ.ReportDifferencesToString(&difference);
    const bool same = differ.Compare(read->message, twice->message);
    INFO(difference);
    CHECK(same);
    // And what was written is all there: only additions (defaults) may differ.
    google::protobuf::util::MessageDifferencer partly;
    partly.set_scope(google::protobuf::util::MessageDifferencer::PARTIAL);
    std::string lost;
    partly.ReportDifferencesToString(&lost);
    const bool kept = partly.Compare(written, read->message);
    INFO(lost);
    CHECK(kept);
  }
}

}  // namespace
}  // namespace muster
