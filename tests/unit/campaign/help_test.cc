#include <catch2/catch.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/wire/rules.h"
#include "controller/campaign/campaign.h"

namespace muster {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

// Every option of a campaign with its path, from the descriptors.
void ForEachOption(const Descriptor& type, const std::string& path,
                   const std::function<void(const std::string&, const FieldDescriptor&)>& visit) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (RuleOf(field).rule.secret()) continue;  // no option of a campaign
    visit(path, field);
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    const std::string here = (path.empty() ? "" : path + ".") + field.name();
    if (field.is_map()) {
      if (field.message_type()->map_value()->message_type() == nullptr) continue;  // names to texts
      ForEachOption(*field.message_type()->map_value()->message_type(), here + ".NAME", visit);
    } else {
      ForEachOption(*field.message_type(), here + (field.is_repeated() ? "[]" : ""), visit);
    }
  }
}

TEST_CASE("the Markdown table has a row for every option") {
  const std::string table = CampaignHelp(true);
  CHECK(table.find("chap.secret.env") != std::string::npos);
  CHECK(table.find("secret.value") == std::string::npos);
  size_t options = 0;
  ForEachOption(*v1::Campaign::descriptor(), "", [&](const std::string& path, const FieldDescriptor& field) {
    ++options;
    const std::string row = "\n| `" + (path.empty() ? "" : path + ".") + field.name() + "` | ";
    INFO(row);
    const size_t at = table.find(row);
    REQUIRE(at != std::string::npos);
    const std::string line = table.substr(at + 1, table.find('\n', at + 1) - at - 1);
    CHECK(line.ends_with("| " + RuleOf(field).rule.help() + " |"));
    // Five cells: a "|" in a cell is escaped.
    size_t bars = 0;
    for (size_t i = 0; i < line.size(); ++i) bars += line[i] == '|' && (i == 0 || line[i - 1] != '\\') ? 1 : 0;
    CHECK(bars == 6);
  });
  CHECK(std::count(table.begin(), table.end(), '\n') == static_cast<std::ptrdiff_t>(options) + 2);
  CHECK(table.find("| `steps[].workload.block` | size | 4KiB | 512 to 64MiB | bytes an operation |") !=
        std::string::npos);
}

TEST_CASE("the text for the terminal is aligned and not wider than it says") {
  std::istringstream lines(CampaignHelp(false, 120));
  std::string line;
  size_t column = 0;
  while (std::getline(lines, line)) {
    INFO(line);
    CHECK(line.size() <= 120);
    CHECK((line.empty() || line.back() != ' '));
    // What an option takes stands in one column, what it means under it.
    if (const size_t at = line.find("size, default 4KiB"); line.starts_with("  block ") && at != std::string::npos) {
      column = at;
    }
    if (const size_t at = line.find("percent, default"); line.starts_with("  read ") && at != std::string::npos) {
      CHECK(at == column);
    }
    if (const size_t at = line.find("share of reads;"); at != std::string::npos) CHECK(at == 6);
  }
  CHECK(column > 0);
  ForEachOption(*v1::Campaign::descriptor(), "", [&](const std::string& path, const FieldDescriptor& field) {
    const std::string help = CampaignHelp(false);
    const size_t group = help.find("\n" + (path.empty() ? "campaign" : path) + ": ");
    INFO(path << " " << field.name());
    REQUIRE(group != std::string::npos);
    CHECK(help.find("\n  " + field.name() + " ", group) != std::string::npos);
  });
}

TEST_CASE("the text keeps to the width it is given, down to 60") {
  size_t before = SIZE_MAX;
  for (const size_t width : {1, 60, 80, 100, 119}) {
    const std::string help = CampaignHelp(false, width);
    std::istringstream lines(help);
    std::string line, words;
    size_t count = 0, widest = 0;
    while (std::getline(lines, line)) {
      ++count;
      INFO(line);
      CHECK((line.empty() || line.back() != ' '));
      // A word that is longer than the line has one of its own: lists of choices.
      const size_t first = line.find_first_not_of(' ');
      if (first != std::string::npos && line.find(' ', first) != std::string::npos) {
        CHECK(line.size() <= std::max<size_t>(width, 60));
      }
      widest = std::max(widest, line.size());
      for (const char c : line) words += c == ' ' ? "" : std::string(1, c);
    }
    CHECK(widest > std::max<size_t>(width, 60) - 15);
    CHECK(count <= before);
    before = count;
    CHECK(words.find("openloop:operationsasecond(1/minto100M/s)") != std::string::npos);
    CHECK(help.find("\n  block ") != std::string::npos);
  }
}

TEST_CASE("the JSON form parses and says the same") {
  const auto groups = nlohmann::json::parse(CampaignHelpJson());
  size_t options = 0;
  ForEachOption(*v1::Campaign::descriptor(), "", [&](const std::string& path, const FieldDescriptor& field) {
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g["path"] == path; });
    INFO(path << " " << field.name());
    REQUIRE(group != groups.end());
    const auto& list = (*group)["options"];
    const auto option =
        std::find_if(list.begin(), list.end(), [&](const auto& o) { return o["name"] == field.name(); });
    REQUIRE(option != list.end());
    CHECK((*option)["help"] == RuleOf(field).rule.help());
    CHECK((*option)["required"] == RuleOf(field).rule.required());
    CHECK(option->contains("default") == !RuleOf(field).rule.default_().empty());
    ++options;
  });
  size_t listed = 0;
  for (const auto& group : groups) listed += group["options"].size();
  CHECK(listed == options);
}

}  // namespace
}  // namespace muster
