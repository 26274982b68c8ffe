#include "controller/campaign/binder.h"

#include <set>

#include "common/base/status.h"
#include "common/wire/rules.h"
#include "fmt/format.h"

namespace muster {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;

std::string Join(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

// What a field takes, for a message about something else.
std::string Expected(const FieldDescriptor& field) {
  if (field.is_map()) return "a map of names";
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) return "a map of options";
  return "a single value";
}

std::string KindText(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kSequence:
      return "a list";
    case YamlNode::Kind::kMap:
      return "a map";
    default:
      return QuoteText(node.text);
  }
}

std::vector<std::string> KeysOf(const Descriptor& type) {
  std::vector<std::string> keys;
  keys.reserve(static_cast<size_t>(type.field_count()));
  for (int i = 0; i < type.field_count(); ++i) keys.push_back(type.field(i)->name());
  return keys;
}

constexpr const char* kWhereSecretsAre = "Name where it is: {env: NAME} or {file: /path}.";

bool HoldsSecret(const Descriptor& type) {
  for (int i = 0; i < type.field_count(); ++i) {
    if (RuleOf(*type.field(i)).rule.secret()) return true;
  }
  return false;
}

// A map from names to scalars, not to options.
bool IsTextMap(const FieldDescriptor& field) {
  return field.is_map() && field.message_type()->map_value()->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE;
}

// Where in a campaign an option of this name belongs, for one that was written in the wrong place: "steps.load".
std::string OwnerOf(const Descriptor& type, const std::string& key, const std::string& path) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    std::string here = Join(path, field.name());
    if (field.name() == key) return here;
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || IsTextMap(field)) continue;
    const Descriptor& inner =
        field.is_map() ? *field.message_type()->map_value()->message_type() : *field.message_type();
    if (std::string found = OwnerOf(inner, key, field.is_map() ? here + ".NAME" : here); !found.empty()) return found;
  }
  return {};
}

class Binder {
 public:
  Binder(LoadedCampaign& campaign, Problems& problems) : campaign_(campaign), problems_(problems) {}

  void BindMessage(const YamlNode& node, Message& message, const std::string& path, const std::string& what) {
    if (node.kind == YamlNode::Kind::kBroken) return;
    const Descriptor& type = *message.GetDescriptor();
    if (HoldsSecret(type) && (node.kind == YamlNode::Kind::kScalar || node.kind == YamlNode::Kind::kSequence)) {
      // Never quoted: what stands there is the secret itself.
      problems_.Add(node.at, "SECRET_IN_CAMPAIGN", fmt::format("{} stands in the campaign, which is stored", what),
                    kWhereSecretsAre);
      return;
    }
    if (!IsMap(node, what)) return;
    std::set<std::string> meant;  // options that a misspelt key stands for: not missing as well
    for (const YamlEntry& entry : node.entries) {
      const FieldDescriptor* field = type.FindFieldByName(entry.key);
      if (field == nullptr) {
        meant.insert(AddUnknownKey(entry, type, what));
        continue;
      }
      const std::string field_path = Join(path, entry.key);
      Note(field_path, entry.at, entry.value.at);
      if (RuleOf(*field).rule.secret()) {
        problems_.Add(entry.at, "SECRET_IN_CAMPAIGN",
                      fmt::format("{} is not for campaigns: they are stored", field_path), kWhereSecretsAre);
        continue;
      }
      if (const OneofDescriptor* oneof = field->real_containing_oneof(); oneof != nullptr) {
        if (!CheckOnlyOne(*oneof, message, entry, path)) continue;
      }
      BindField(entry.value, message, *field, field_path);
    }
    CheckMissing(node, type, path, what, meant);
  }

 private:
  void Note(const std::string& path, SourcePosition key, SourcePosition value) {
    campaign_.keys.emplace(path, key);
    campaign_.positions.emplace(path, value);
  }

  bool IsMap(const YamlNode& node, const std::string& what) {
    if (node.kind == YamlNode::Kind::kMap) return true;
    if (node.kind == YamlNode::Kind::kNull) {
      AddNull(node, what);
    } else {
      problems_.Add(node.at, "WRONG_TYPE", fmt::format("{} must be a map of options, not {}", what, KindText(node)));
    }
    return false;
  }

  void AddNull(const YamlNode& node, const std::string& what) {
    problems_.Add(node.at, "NULL_VALUE", fmt::format("{} has no value", what),
                  "Give one, or leave the key out; a map without options is written {}.");
  }

  // Returns the option that was probably meant, or nothing.
  std::string AddUnknownKey(const YamlEntry& entry, const Descriptor& type, const std::string& what) {
    const std::vector<std::string> choices = KeysOf(type);
    std::string near = DidYouMean(entry.key, choices);
    std::string next;
    if (!near.empty()) {
      next = fmt::format("Did you mean {}?", QuoteText(near));
    } else if (const std::string owner = OwnerOf(*v1::Campaign::descriptor(), entry.key, ""); !owner.empty()) {
      next = fmt::format("It belongs to {}.", owner);
    } else {
      next = fmt::format("Known here: {}.", fmt::join(choices, ", "));
    }
    problems_.Add(entry.at, "UNKNOWN_KEY", fmt::format("{} has no option {}", what, QuoteText(entry.key)),
                  std::move(next));
    return near;
  }

  bool CheckOnlyOne(const OneofDescriptor& oneof, const Message& message, const YamlEntry& entry,
                    const std::string& path) {
    const FieldDescriptor* other = message.GetReflection()->GetOneofFieldDescriptor(message, &oneof);
    if (other == nullptr) return true;
    const SourcePosition first = campaign_.keys.at(Join(path, other->name()));
    problems_.Add(entry.at, "CONTRADICTION",
                  fmt::format("{} contradicts {} at {}:{}: exactly one {} can be given", entry.key, other->name(),
                              first.line, first.column, oneof.name()),
                  "Remove one of them.");
    return false;
  }

  void CheckMissing(const YamlNode& node, const Descriptor& type, const std::string& path, const std::string& what,
                    const std::set<std::string>& meant) {
    for (int i = 0; i < type.real_oneof_decl_count(); ++i) {
      const OneofDescriptor& oneof = *type.oneof_decl(i);
      std::vector<std::string> names;
      bool given = false;
      for (int k = 0; k < oneof.field_count(); ++k) {
        names.push_back(oneof.field(k)->name());
        given = given || campaign_.IsGiven(Join(path, names.back())) || meant.contains(names.back());
      }
      if (given) continue;
      problems_.Add(node.at, "MISSING_KEY", fmt::format("{} needs one of {}", what, fmt::join(names, ", ")));
    }
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor& field = *type.field(i);
      const v1::Rule& rule = RuleOf(field).rule;
      if (!rule.required() || meant.contains(field.name()) || campaign_.IsGiven(Join(path, field.name()))) continue;
      problems_.Add(node.at, "MISSING_KEY", fmt::format("{} needs {}: {}", what, field.name(), rule.help()));
    }
  }

  void BindField(const YamlNode& node, Message& message, const FieldDescriptor& field, const std::string& path) {
    if (node.kind == YamlNode::Kind::kBroken) return;
    if (field.is_map()) return BindMap(node, message, field, path);
    if (!field.is_repeated()) return BindOne(node, message, field, path);
    if (node.kind != YamlNode::Kind::kSequence) {
      // One element is a list of one.
      campaign_.positions.emplace(path + "[0]", node.at);
      campaign_.keys.emplace(path + "[0]", node.at);
      return BindOne(node, message, field, path);
    }
    for (size_t i = 0; i < node.items.size(); ++i) {
      const std::string item_path = fmt::format("{}[{}]", path, i);
      Note(item_path, node.items[i].at, node.items[i].at);
      BindOne(node.items[i], message, field, item_path);
    }
    CheckSize(node, node.items.size(), field);
  }

  // A field or one element of a list.
  void BindOne(const YamlNode& node, Message& message, const FieldDescriptor& field, const std::string& path) {
    if (node.kind == YamlNode::Kind::kBroken) return;
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      const auto& reflection = *message.GetReflection();
      Message* inner =
          field.is_repeated() ? reflection.AddMessage(&message, &field) : reflection.MutableMessage(&message, &field);
      return BindMessage(node, *inner, path, path);
    }
    if (node.kind == YamlNode::Kind::kNull) return AddNull(node, path);
    if (node.kind != YamlNode::Kind::kScalar) {
      problems_.Add(node.at, "WRONG_TYPE", fmt::format("{} must be {}, not {}", path, Expected(field), KindText(node)));
      return;
    }
    if (absl::Status status = SetScalar(message, field, node.text); !status.ok()) AddScalar(node, path, status);
  }

  void AddScalar(const YamlNode& node, const std::string& path, const absl::Status& status) {
    ErrorInfo info = GetErrorInfo(status);
    problems_.Add(node.at, std::move(info.code), fmt::format("{}: {}", path, info.message), std::move(info.next));
  }

  void BindMap(const YamlNode& node, Message& message, const FieldDescriptor& field, const std::string& path) {
    if (!IsMap(node, path)) return;
    for (const YamlEntry& entry : node.entries) {
      Message* pair = message.GetReflection()->AddMessage(&message, &field);
      const std::string entry_path = Join(path, entry.key);
      Note(entry_path, entry.at, entry.value.at);
      if (absl::Status status = CheckMapKey(entry.key); !status.ok()) {
        AddScalar({.kind = YamlNode::Kind::kScalar, .at = entry.at}, path, status);
      }
      pair->GetReflection()->SetString(pair, field.message_type()->map_key(), entry.key);
      BindOne(entry.value, *pair, *field.message_type()->map_value(), entry_path);
    }
    CheckSize(node, node.entries.size(), field);
  }

  // Keys of maps are names, as that of the campaign.
  static absl::Status CheckMapKey(const std::string& key) {
    v1::Campaign scratch;
    return SetScalar(scratch, *v1::Campaign::descriptor()->FindFieldByNumber(v1::Campaign::kNameFieldNumber), key);
  }

  void CheckSize(const YamlNode& node, size_t size, const FieldDescriptor& field) {
    const FieldRule& rule = RuleOf(field);
    const bool messages = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    const double most = messages ? rule.max.value_or(1e9) : rule.rule.max_items() > 0 ? rule.rule.max_items() : 1e9;
    const double least = messages ? rule.min.value_or(0) : 1;  // an empty list of values says nothing
    const auto count = static_cast<double>(size);
    if (count < least) {
      problems_.Add(node.at, "UNIT_RANGE", fmt::format("{} is empty", field.name()), "Give at least one element.");
    } else if (count > most) {
      problems_.Add(node.at, "UNIT_RANGE", fmt::format("{} has {} elements: at most {:.0f}", field.name(), size, most));
    }
  }

  LoadedCampaign& campaign_;
  Problems& problems_;
};

// ---- Defaults

// A message left out is made when something in it has a default and nothing in it must be given.
bool HasDefaults(const Descriptor& type) {
  bool found = false;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const v1::Rule& rule = RuleOf(field).rule;
    if (rule.required() || field.real_containing_oneof() != nullptr) return false;
    found = found || !rule.default_().empty();
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field.is_repeated()) {
      found = found || HasDefaults(*field.message_type());
    }
  }
  return found;
}

class Defaults {
 public:
  explicit Defaults(const LoadedCampaign& campaign) : campaign_(campaign) {}

  void Fill(Message& message, const std::string& path) const {
    const Descriptor& type = *message.GetDescriptor();
    for (int i = 0; i < type.field_count(); ++i) FillField(message, *type.field(i), Join(path, type.field(i)->name()));
  }

 private:
  void FillField(Message& message, const FieldDescriptor& field, const std::string& path) const {
    const auto& reflection = *message.GetReflection();
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      const std::string& text = RuleOf(field).rule.default_();
      // A default that does not parse is caught by the test of the descriptors.
      if (!text.empty() && !field.is_repeated() && !campaign_.IsGiven(path)) (void)SetScalar(message, field, text);
      return;
    }
    if (IsTextMap(field)) return;
    if (field.is_map()) {
      for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
        Message* pair = reflection.MutableRepeatedMessage(&message, &field, i);
        const std::string name = pair->GetReflection()->GetString(*pair, field.message_type()->map_key());
        Fill(*pair->GetReflection()->MutableMessage(pair, field.message_type()->map_value()), Join(path, name));
      }
      return;
    }
    if (field.is_repeated()) {
      for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
        Fill(*reflection.MutableRepeatedMessage(&message, &field, i), fmt::format("{}[{}]", path, i));
      }
      return;
    }
    const bool one_of = field.real_containing_oneof() != nullptr;
    if (reflection.HasField(message, &field) || (!one_of && HasDefaults(*field.message_type()))) {
      Fill(*reflection.MutableMessage(&message, &field), path);
    }
  }

  const LoadedCampaign& campaign_;
};

}  // namespace

void BindCampaign(const YamlNode& root, LoadedCampaign& campaign, Problems& problems) {
  campaign.positions.emplace("", root.at);
  campaign.keys.emplace("", root.at);
  Binder(campaign, problems).BindMessage(root, campaign.message, "", "the campaign");
  Defaults(campaign).Fill(campaign.message, "");
}

}  // namespace muster
