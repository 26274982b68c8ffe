#include <catch2/catch.hpp>

#include "controller/cli/verbs.h"

namespace muster {
namespace {

CommandNode Tree() {
  CommandNode show{.name = "show", .help = "Show a run's figures", .takes_run = true};
  show.options.push_back({.names = {"--json"}, .help = "Print JSON"});
  show.options.push_back(
      {.names = {"--format", "-f"}, .help = "Form", .choices = {"json", "csv"}, .takes_value = true});
  CommandNode results{.name = "results", .help = "Runs"};
  results.commands.push_back(show);
  CommandNode root{.name = "muster"};
  root.commands.push_back(results);
  return root;
}

TEST_CASE("each shell's script names every command, option and choice") {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string script = CompletionScript(shell, Tree());
    INFO(shell << "\n" << script);
    for (const char* word : {"results", "show", "json", "format", "csv"}) CHECK(script.find(word) != std::string::npos);
  }
  CHECK(CompletionScript("tcsh", Tree()).empty());
}

TEST_CASE("bash follows the command path") {
  const std::string script = CompletionScript("bash", Tree());
  CHECK(script.find("\"muster results show\")") != std::string::npos);
  CHECK(script.find("--format|-f) COMPREPLY=($(compgen -W \"json csv\"") != std::string::npos);
}

TEST_CASE("run ids come from where the verb finds them") {
  CommandNode root = Tree();
  root.commands.push_back({.name = "watch", .help = "", .takes_run = true, .runs_from = "status --ids"});
  const std::string script = CompletionScript("bash", root);
  CHECK(script.find("last $(muster results list --ids 2>/dev/null)") != std::string::npos);
  CHECK(script.find("last $(muster status --ids 2>/dev/null)") != std::string::npos);
}

TEST_CASE("help texts with quotes stay whole in fish") {
  CHECK(CompletionScript("fish", Tree()).find("'Show a run'\\''s figures'") != std::string::npos);
}

}  // namespace
}  // namespace muster
