#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/wire/rules.h"
#include "controller/campaign/campaign.h"
#include "fmt/format.h"

namespace muster {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

struct Option {
  std::string name;
  std::string takes;  // "size", "closed|fixed|poisson", "list of loads"
  std::vector<std::string> choices;
  bool list = false;
  v1::Rule rule;
};

// The options of one message at one place of the campaign.
struct Group {
  std::string path;  // "" for the top level, "steps[].workload"
  std::string help;  // of the field that leads here
  std::vector<Option> options;
};

std::string UnitName(const FieldDescriptor& field, v1::Unit unit) {
  switch (unit) {
    case v1::UNIT_BYTES:
      return "size";
    case v1::UNIT_DURATION:
      return "duration";
    case v1::UNIT_RATE:
      return "rate";
    case v1::UNIT_PERCENT:
      return "percent";
    case v1::UNIT_LOAD:
      return "load";
    case v1::UNIT_PASSES:
      return "passes";
    case v1::UNIT_PATH:
      return "path";
    case v1::UNIT_NAME:
      return "name";
    default:
      break;
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true|false";
    case FieldDescriptor::CPPTYPE_STRING:
      return "text";
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return "options";
    default:
      return "number";
  }
}

// A map from names to scalars, not to options.
bool IsTextMap(const FieldDescriptor& field) {
  return field.is_map() && field.message_type()->map_value()->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE;
}

Option OptionOf(const FieldDescriptor& field) {
  Option option{.name = field.name(), .takes = {}, .choices = {}, .list = false, .rule = RuleOf(field).rule};
  option.list = field.is_repeated() && !field.is_map();
  option.takes = UnitName(field, option.rule.unit());
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
    for (int i = 0; i < field.enum_type()->value_count(); ++i) {
      const auto& value = *field.enum_type()->value(i);
      if (value.number() != 0) option.choices.push_back(EnumText(value));
    }
    option.takes = fmt::format("{}", fmt::join(option.choices, "|"));
  }
  if (field.is_map()) option.takes = IsTextMap(field) ? "NAME: text, ..." : "NAME: options, ...";
  if (option.list) option.takes = fmt::format("list of {}", option.takes);
  return option;
}

// Depth first, so that each group follows the one that leads to it. The types of a campaign do not contain themselves.
void Collect(const Descriptor& type, const std::string& path, const std::string& help, std::vector<Group>& groups) {
  Group group{.path = path, .help = help, .options = {}};
  for (int i = 0; i < type.field_count(); ++i) {
    // What a secret is comes from elsewhere: no option of a campaign.
    if (!RuleOf(*type.field(i)).rule.secret()) group.options.push_back(OptionOf(*type.field(i)));
  }
  groups.push_back(std::move(group));
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || IsTextMap(field)) continue;
    const Descriptor& inner =
        field.is_map() ? *field.message_type()->map_value()->message_type() : *field.message_type();
    const std::string suffix = field.is_map() ? ".NAME" : field.is_repeated() ? "[]" : "";
    Collect(inner, fmt::format("{}{}{}{}", path, path.empty() ? "" : ".", field.name(), suffix),
            RuleOf(field).rule.help(), groups);
  }
}

std::vector<Group> Groups() {
  std::vector<Group> groups;
  Collect(*v1::Campaign::descriptor(), "", "the top level of the file", groups);
  return groups;
}

std::string LimitsOf(const Option& option) {
  const v1::Rule& rule = option.rule;
  std::string out;
  if (!rule.min().empty() && !rule.max().empty()) {
    out = fmt::format("{} to {}", rule.min(), rule.max());
  } else if (!rule.min().empty()) {
    out = fmt::format("at least {}", rule.min());
  } else if (!rule.max().empty()) {
    out = fmt::format("at most {}", rule.max());
  }
  const bool counted = option.takes.ends_with("options") || option.takes.starts_with("NAME:");
  const bool text =
      option.takes == "text" || option.takes == "path" || option.takes == "load" || option.takes == "list of load";
  if (!out.empty() && counted) out += " elements";
  if (!out.empty() && text) out += " characters";
  if (rule.max_items() > 0) out += fmt::format("{}at most {} elements", out.empty() ? "" : ", ", rule.max_items());
  return out;
}

std::string DefaultOf(const Option& option) {
  if (option.rule.required()) return "required";
  return option.rule.default_();
}

std::string MarkdownCell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out.push_back('\\');
    out.push_back(c);
  }
  return out;
}

std::string Markdown() {
  std::string out = "| option | takes | default | limits | meaning |\n|---|---|---|---|---|\n";
  for (const Group& group : Groups()) {
    for (const Option& option : group.options) {
      const std::string value = DefaultOf(option);
      out += fmt::format("| `{}{}{}` | {} | {} | {} | {} |\n", group.path, group.path.empty() ? "" : ".", option.name,
                         MarkdownCell(option.takes), MarkdownCell(value.empty() ? "-" : value),
                         MarkdownCell(LimitsOf(option)), MarkdownCell(option.rule.help()));
    }
  }
  return out;
}

// Words of `text` in lines of at most `width`, the following ones indented.
std::string Wrapped(const std::string& text, size_t width, size_t indent) {
  std::string out;
  size_t column = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t end = std::min(text.find(' ', i), text.size());
    const size_t length = end - i;
    if (column > 0 && column + 1 + length > width) {
      out += "\n" + std::string(indent, ' ');
      column = 0;
    } else if (column > 0) {
      out += ' ';
      ++column;
    }
    out += text.substr(i, length);
    column += length;
    i = end + 1;
  }
  return out;
}

// An option takes two lines: what it is and takes, and under that what it means. In columns beside each other the
// meaning would be left too few of them.
std::string Terminal(size_t width) {
  constexpr size_t kUnder = 6;
  const std::vector<Group> groups = Groups();
  size_t name = 0;
  for (const Group& group : groups) {
    for (const Option& option : group.options) name = std::max(name, option.name.size());
  }
  std::string out = Wrapped(
      "A campaign is one YAML file. Its options, with what they take, their default and their limits:", width, 0);
  out += "\n";
  for (const Group& group : groups) {
    const std::string path = group.path.empty() ? "campaign" : group.path;
    out += "\n" + Wrapped(fmt::format("{}: {}", path, group.help), width - kUnder, kUnder) + "\n";
    for (const Option& option : group.options) {
      const std::string given = DefaultOf(option);
      const std::string head = given == "required" ? ", required" : given.empty() ? "" : ", default " + given;
      out += fmt::format("  {:<{}}  {}\n", option.name, name, Wrapped(option.takes + head, width - name - 4, name + 4));
      const std::string limits = LimitsOf(option);
      const std::string text = option.rule.help() + (limits.empty() ? "" : fmt::format(" ({})", limits));
      out += std::string(kUnder, ' ') + Wrapped(text, width - kUnder, kUnder) + "\n";
    }
  }
  const std::string forms =
      "Sizes: 4KiB, 140GB (K M G T alone are binary). Durations: 250us, 30s, 2h30m. Rates: 10k/s, 600/min. "
      "Percent: 70%. Loads: 16T16Q, streams x queue depth. Passes: 1x. One value stands for a list of one.";
  return out + "\n" + Wrapped(forms, width, 0) + "\n";
}

}  // namespace

std::string CampaignHelp(bool markdown, size_t width) {
  return markdown ? Markdown() : Terminal(std::max<size_t>(width, 60));
}

std::string CampaignHelpJson() {
  nlohmann::ordered_json groups = nlohmann::ordered_json::array();
  for (const Group& group : Groups()) {
    nlohmann::ordered_json options = nlohmann::ordered_json::array();
    for (const Option& option : group.options) {
      const v1::Rule& rule = option.rule;
      nlohmann::ordered_json entry;
      entry["name"] = option.name;
      entry["takes"] = option.takes;
      entry["list"] = option.list;
      entry["required"] = rule.required();
      if (!option.choices.empty()) entry["choices"] = option.choices;
      if (!rule.default_().empty()) entry["default"] = rule.default_();
      if (!rule.min().empty()) entry["min"] = rule.min();
      if (!rule.max().empty()) entry["max"] = rule.max();
      if (rule.max_items() > 0) entry["max_items"] = rule.max_items();
      entry["help"] = rule.help();
      options.push_back(std::move(entry));
    }
    groups.push_back({{"path", group.path}, {"help", group.help}, {"options", std::move(options)}});
  }
  return groups.dump(2) + "\n";
}

}  // namespace muster
