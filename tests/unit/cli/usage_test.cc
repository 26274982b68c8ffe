// What is said of a command line that the parser refuses.
#include "common/cli/usage.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <catch2/catch.hpp>

#include "common/base/status.h"

namespace muster {
namespace {

ErrorInfo Refusal(std::vector<std::string> words) {
  CLI::App app{"A program", "prog"};
  app.require_subcommand(1);
  app.fallthrough();
  std::string level, file, format;
  app.add_option("--log-level", level);
  CLI::App* run = app.add_subcommand("run");
  run->add_option("campaign", file)->required();
  run->add_option("--local", level);
  run->add_option("--hidden", level)->group("");
  CLI::App* results = app.add_subcommand("results");
  results->require_subcommand(1);
  results->add_subcommand("show");
  results->add_subcommand("export")->add_option("--format", format)->check(CLI::IsMember({"json", "csv"}));
  std::reverse(words.begin(), words.end());  // as the parser takes them
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    return GetErrorInfo(UsageError(app, error));
  }
  return {.code = "OK"};
}

TEST_CASE("a command line that is wrong gives a typed error with what was probably meant") {
  struct Case {
    std::vector<std::string> words;
    const char* code;
    const char* message;
    const char* next;
  };
  const std::vector<Case> cases{
      {{"rnu"}, "UNKNOWN_COMMAND", "there is no command \"rnu\"", "Did you mean \"run\"?"},
      {{"zebra"}, "UNKNOWN_COMMAND", "there is no command \"zebra\"", "The commands are: run, results."},
      {{"results", "shwo"}, "UNKNOWN_COMMAND", "results has no command \"shwo\"", "Did you mean \"show\"?"},
      {{"export"}, "UNKNOWN_COMMAND", "there is no command \"export\"", "Did you mean \"results export\"?"},
      {{"run", "--locl", "3", "a.yaml"}, "UNKNOWN_OPTION", "run has no option \"--locl\"", "Did you mean --local?"},
      {{"run", "--locl=3", "a.yaml"}, "UNKNOWN_OPTION", "run has no option \"--locl\"", "Did you mean --local?"},
      {{"run", "a.yaml", "--hiden"}, "UNKNOWN_OPTION", "run has no option", "prog run --help lists all."},
      {{"results", "show", "--log-levle", "x"},
       "UNKNOWN_OPTION",
       "results show has no option",
       "Did you mean --log-level?"},
      {{"--vesion"}, "UNKNOWN_OPTION", "there is no option \"--vesion\"", "prog --help"},
      {{"run", "a.yaml", "b.yaml"}, "UNKNOWN_ARGUMENT", "run: there is no place for \"b.yaml\"", "prog run --help"},
      {{"results", "show", "x"},
       "UNKNOWN_ARGUMENT",
       "results show: there is no place for \"x\"",
       "prog results show --help"},
      {{}, "MISSING_COMMAND", "a command is missing", "The commands are: run, results."},
      {{"results"}, "MISSING_COMMAND", "results: a command is missing", "The commands are: show, export."},
      {{"run"}, "MISSING_ARGUMENT", "campaign is required", "prog run --help"},
      {{"results", "export", "--format", "xml"}, "USAGE", "xml", "prog results export --help"},
      {{"results", "export", "--format"}, "USAGE", "--format", "prog results export --help"},
      {{"results", "show"}, "OK", "", ""},
  };
  for (const Case& c : cases) {
    INFO(c.message << " / " << c.code);
    const ErrorInfo error = Refusal(c.words);
    CHECK(error.code == c.code);
    CHECK_THAT(error.message, Catch::Contains(c.message));
    CHECK_THAT(error.next, Catch::Contains(c.next));
    if (error.code == std::string("UNKNOWN_OPTION")) CHECK(error.next.find("--hidden") == std::string::npos);
  }
}

}  // namespace
}  // namespace muster
