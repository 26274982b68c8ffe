#include <fmt/format.h>

#include "controller/cli/verbs.h"

namespace muster {
namespace {

std::string Join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (const auto& part : parts) {
    if (!out.empty()) out += separator;
    out += part;
  }
  return out;
}

// Words that may stand after a command: its subcommands and options.
std::string WordsOf(const CommandNode& node) {
  std::vector<std::string> words;
  for (const auto& command : node.commands) words.push_back(command.name);
  for (const auto& option : node.options) words.insert(words.end(), option.names.begin(), option.names.end());
  return Join(words, " ");
}

// One `case` arm a command path, for bash: words, then what its options and positional take.
void BashArms(const CommandNode& node, const std::string& path, std::string& out) {
  std::string values;
  for (const auto& option : node.options) {
    if (!option.takes_value) continue;
    const std::string reply =
        !option.choices.empty() ? fmt::format("COMPREPLY=($(compgen -W \"{}\" -- \"$cur\"))", Join(option.choices, " "))
        : option.is_path        ? "COMPREPLY=($(compgen -f -- \"$cur\"))"
                                : "COMPREPLY=()";
    values += fmt::format("        {}) {}; return;;\n", Join(option.names, "|"), reply);
  }
  out += fmt::format("    \"{}\")\n", path);
  if (!values.empty()) out += "      case \"$prev\" in\n" + values + "      esac\n";
  out += fmt::format("      words=\"{}\"\n", WordsOf(node));
  if (node.takes_path) out += "      [[ $cur != -* ]] && { COMPREPLY=($(compgen -f -- \"$cur\")); return; }\n";
  if (node.takes_run) {
    out += fmt::format(
        "      [[ $cur != -* ]] && {{ COMPREPLY=($(compgen -W \"last $(muster {} 2>/dev/null)\" -- "
        "\"$cur\")); return; }}\n",
        node.runs_from);
  }
  out += "      ;;\n";
  for (const auto& command : node.commands) BashArms(command, path + " " + command.name, out);
}

void CommandPaths(const CommandNode& node, const std::string& path, std::vector<std::string>& out) {
  for (const auto& command : node.commands) {
    out.push_back(path + " " + command.name);
    CommandPaths(command, out.back(), out);
  }
}

std::string Bash(const CommandNode& root) {
  std::string arms;
  BashArms(root, root.name, arms);
  std::vector<std::string> paths;
  CommandPaths(root, root.name, paths);
  return fmt::format(R"(# bash completion for {0}: source <({0} completion bash)
_{0}() {{
  local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="${{COMP_WORDS[COMP_CWORD-1]}}" words="" path="{0}" i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$path ${{COMP_WORDS[i]}}" in
      "{1}") path="$path ${{COMP_WORDS[i]}}";;
    esac
  done
  case "$path" in
{2}  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -o filenames -F _{0} {0}
)",
                     root.name, Join(paths, "\"|\""), arms);
}

std::string Quoted(std::string text) {
  for (size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += 4) text.replace(at, 1, "'\\''");
  return "'" + text + "'";
}

void FishLines(const CommandNode& node, const std::vector<std::string>& path, const std::string& program,
               std::string& out) {
  std::string condition;
  for (const auto& word : path) condition += fmt::format("__fish_seen_subcommand_from {}; and ", word);
  std::vector<std::string> below;
  for (const auto& command : node.commands) below.push_back(command.name);
  condition += below.empty() ? "true" : fmt::format("not __fish_seen_subcommand_from {}", Join(below, " "));
  for (const auto& command : node.commands) {
    out += fmt::format("complete -c {} -n {} -f -a {} -d {}\n", program, Quoted(condition), command.name,
                       Quoted(command.help));
  }
  for (const auto& option : node.options) {
    std::string flags;
    for (const auto& name : option.names)
      flags += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    if (option.takes_value) flags += option.is_path ? " -r -F" : " -x";
    if (!option.choices.empty()) flags += " -a " + Quoted(Join(option.choices, " "));
    out += fmt::format("complete -c {} -n {}{} -d {}\n", program, Quoted(condition), flags, Quoted(option.help));
  }
  for (const auto& command : node.commands) {
    auto deeper = path;
    deeper.push_back(command.name);
    FishLines(command, deeper, program, out);
  }
}

}  // namespace

std::string CompletionScript(const std::string& shell, const CommandNode& root) {
  if (shell == "bash") return Bash(root);
  // zsh runs bash completions through its own emulation.
  if (shell == "zsh")
    return "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n" + Bash(root);
  if (shell == "fish") {
    std::string out = fmt::format("# fish completion for {0}: {0} completion fish | source\n", root.name);
    FishLines(root, {}, root.name, out);
    return out;
  }
  return {};
}

}  // namespace muster
