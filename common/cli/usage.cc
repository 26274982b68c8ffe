#include "common/cli/usage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "common/base/status.h"
#include "common/wire/rules.h"

namespace muster {
namespace {

// The commands that were recognised, from the program down.
std::vector<const CLI::App*> Chosen(const CLI::App& app) {
  std::vector<const CLI::App*> chain{&app};
  for (;;) {
    const auto parsed = chain.back()->get_subcommands();
    if (parsed.empty()) return chain;
    chain.push_back(parsed.back());
  }
}

std::vector<const CLI::App*> CommandsOf(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::string Words(const std::vector<const CLI::App*>& chain) {
  std::string out;
  for (const CLI::App* app : chain) out += (out.empty() ? "" : " ") + app->get_name();
  return out;
}

// "results show has no"; of the program itself, which names every line of its errors: "there is no".
std::string Lacks(const std::vector<const CLI::App*>& chain) {
  if (chain.size() == 1) return "there is no";
  return Words({chain.begin() + 1, chain.end()}) + " has no";
}

// "results show: ", nothing of the program itself.
std::string Of(const std::vector<const CLI::App*>& chain) {
  return chain.size() == 1 ? "" : Words({chain.begin() + 1, chain.end()}) + ": ";
}

absl::Status Wrong(std::string code, std::string message, std::string next) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.code = std::move(code), .message = std::move(message), .next = std::move(next)});
}

// Of this command and of those above it, whose options are taken here too. The hidden ones are not proposed.
absl::Status UnknownOption(const std::vector<const CLI::App*>& chain, const std::string& given) {
  const std::string name = given.substr(0, given.find('='));
  std::vector<std::string> choices;
  for (const CLI::App* app : chain) {
    for (const CLI::Option* option : app->get_options()) {
      if (option->get_group().empty()) continue;
      for (const auto& long_name : option->get_lnames()) choices.push_back("--" + long_name);
    }
  }
  const std::string near = DidYouMean(name, choices);
  return Wrong(
      "UNKNOWN_OPTION", fmt::format("{} option {}", Lacks(chain), QuoteText(name)),
      fmt::format("{}{} --help lists all.", near.empty() ? "" : fmt::format("Did you mean {}? ", near), Words(chain)));
}

// The command of that name wherever it is below `app`, as it is to be written ("results show"); "" when there is none.
std::string FindBelow(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : CommandsOf(app)) {
    if (command->get_name() == name) return name;
    const std::string below = FindBelow(*command, name);
    if (!below.empty()) return command->get_name() + " " + below;
  }
  return {};
}

std::vector<std::string> NamesOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : CommandsOf(app)) names.push_back(command->get_name());
  return names;
}

absl::Status UnknownCommand(const std::vector<const CLI::App*>& chain, const std::string& given) {
  const CLI::App& last = *chain.back();
  const std::vector<std::string> names = NamesOf(last);
  std::string near = DidYouMean(given, names);
  if (near.empty()) near = FindBelow(*chain.front(), given);
  return Wrong("UNKNOWN_COMMAND", fmt::format("{} command {}", Lacks(chain), QuoteText(given)),
               near.empty() ? fmt::format("The commands are: {}.", fmt::join(names, ", "))
                            : fmt::format("Did you mean {}?", QuoteText(near)));
}

}  // namespace

absl::Status UsageError(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<const CLI::App*> chain = Chosen(app);
  const std::vector<std::string> extra = app.remaining(true);
  const auto option = std::find_if(extra.begin(), extra.end(),
                                   [](const std::string& text) { return text.size() > 1 && text.front() == '-'; });
  const bool required = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  const bool surplus = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  const bool has_commands = !CommandsOf(*chain.back()).empty();
  const std::string help = fmt::format("{} --help tells more.", Words(chain));
  // What is unknown comes first: with it, something that is needed is missing often enough.
  if ((required || surplus) && option != extra.end()) return UnknownOption(chain, *option);
  if ((required || surplus) && has_commands && !extra.empty()) return UnknownCommand(chain, extra.front());
  if (surplus && !extra.empty()) {
    return Wrong("UNKNOWN_ARGUMENT", fmt::format("{}there is no place for {}", Of(chain), QuoteText(extra.front())),
                 help);
  }
  if (required && has_commands) {
    return Wrong("MISSING_COMMAND", fmt::format("{}a command is missing", Of(chain)),
                 fmt::format("The commands are: {}.", fmt::join(NamesOf(*chain.back()), ", ")));
  }
  return Wrong(required ? "MISSING_ARGUMENT" : "USAGE", fmt::format("{}{}", Of(chain), error.what()), help);
}

}  // namespace muster
