// muster: reads flags, wires signals, calls one verb.
#include <google/protobuf/stubs/logging.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <initializer_list>
#include <sstream>

#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/base/std_fds.h"
#include "common/base/units.h"
#include "common/cli/usage.h"
#include "controller/cli/output.h"
#include "controller/cli/session.h"
#include "controller/cli/verbs.h"
#include "controller/top/top_verb.h"

namespace {

std::atomic<int> g_cancel{0};
std::atomic<int> g_leave{0};   // a remote run is left, not ended
std::atomic<int> g_reopen{0};  // the log file has been moved away
static_assert(std::atomic<int>::is_always_lock_free, "set from a signal handler");

extern "C" void OnSignal(int) {
  const int seen = g_cancel.load();
  // The first asks for a clean end, the second for an end at once; a third is for a program that no longer answers.
  if (seen >= 2) _exit(muster::kExitInfrastructure);
  g_cancel.store(seen + 1);
}

extern "C" void OnLeave(int) {
  g_leave.fetch_add(1);
}

extern "C" void OnReopen(int) {
  g_reopen.fetch_add(1);
}

void Catch(std::initializer_list<int> numbers, void (*handler)(int), bool always = false) {
  struct sigaction action {};
  action.sa_handler = handler;
  for (int number : numbers) {
    // What the caller has set to be ignored stays ignored: that is how nohup works.
    struct sigaction inherited {};
    sigaction(number, nullptr, &inherited);
    if (always || inherited.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);
  }
}

void CatchSignals() {
  Catch({SIGINT, SIGTERM, SIGHUP}, OnSignal);
  signal(SIGPIPE, SIG_IGN);
}

// What the parser says of a record it cannot read is said by a typed error, with file and place: its own lines are for
// who asks for them.
void LogProtobuf(google::protobuf::LogLevel level, const char*, int, const std::string& message) {
  const bool fatal = level == google::protobuf::LOGLEVEL_FATAL;
  muster::Log(fatal ? muster::LogLevel::kError : muster::LogLevel::kDebug, "protobuf: {}", message);
}

muster::LogLevel LevelOf(const std::string& name) {
  if (name == "debug") return muster::LogLevel::kDebug;
  if (name == "info") return muster::LogLevel::kInfo;
  if (name == "error") return muster::LogLevel::kError;
  return muster::LogLevel::kWarning;
}

// At least a second; what is wrong with it is said.
bool ReadDuration(const char* option, const std::string& text, muster::Nanos& value) {
  auto parsed = muster::ParseDuration(text);
  if (parsed.ok() && *parsed >= muster::kSecond) {
    value = *parsed;
    return true;
  }
  muster::Err("muster: {}: {}\n", option,
              parsed.ok() ? "at least 1s [UNIT_RANGE]" : muster::FormatError(parsed.status()));
  return false;
}

muster::CommandNode TreeOf(const CLI::App& app) {
  muster::CommandNode node{.name = app.get_name(), .help = app.get_description()};
  for (const CLI::Option* option : app.get_options()) {
    muster::CommandNode::Option out{.help = option->get_description()};
    for (const auto& name : option->get_lnames()) out.names.push_back("--" + name);
    for (const auto& name : option->get_snames()) out.names.push_back("-" + name);
    if (out.names.empty()) {
      node.takes_path |=
          option->get_name() == "CAMPAIGN" || option->get_name() == "campaign" || option->get_name() == "what";
      node.takes_run |= option->get_name() == "RUN" || option->get_name() == "run";
      continue;
    }
    out.takes_value = option->get_items_expected_max() > 0;
    out.is_path = option->get_type_name() == "PATH";
    if (out.names.front() == "--format") out.choices = {"json", "csv", "hlog"};
    if (out.names.front() == "--log-level") out.choices = {"debug", "info", "warn", "error"};
    node.options.push_back(std::move(out));
  }
  // Runs that can be watched and cancelled are those of a controller.
  if (node.name == "watch" || node.name == "cancel" || node.name == "top") node.runs_from = "status --ids";
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    node.commands.push_back(TreeOf(*command));
  }
  return node;
}

}  // namespace

namespace {

// What of lost output decides the exit code.
enum class Verb {
  kReads,  // prints what can be had again: a reader that closes early has what it wanted
  kRuns,   // prints the result of a run: what is missing of it is told
};

// Help and version go through the same output as everything else.
int ParseEnded(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  if (dynamic_cast<const CLI::CallForVersion*>(&error) != nullptr) return muster::VersionVerb(false);
  if (error.get_exit_code() == 0) {
    std::ostringstream text, none;
    app.exit(error, text, none);
    muster::PutOut(text.str());
    return muster::kExitOk;
  }
  const bool json = std::any_of(argv, argv + argc, [](const char* word) { return std::string_view(word) == "--json"; });
  return muster::Fail(muster::UsageError(app, error), json, muster::kExitUsage);
}

int RunMain(int argc, char** argv, Verb& verb) {
  CLI::App app{"Distributed storage load generator: one number for the whole fleet, and the evidence beside it.",
               "muster"};
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 ok, 1 a verdict failed, 2 usage or campaign error, 3 infrastructure.\n"
      "Results go to stdout, progress and logs to stderr.\n\n"
      "Examples:\n"
      "  muster plan campaign.yaml              what would be done, and what would be overwritten\n"
      "  muster run campaign.yaml --local 3     run it on three local agents\n"
      "  muster targets probe campaign.yaml:lun what an iSCSI target offers\n"
      "  muster results show                    the newest run\n"
      "  muster help campaign                   every option of a campaign file\n"
      "  muster serve                           a controller that stays; agents, status, top, watch, cancel ask it");

  std::string log_level = "warn";
  app.add_option("--log-level", log_level, "Least severe log line shown: debug, info, warn or error")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->type_name("LEVEL");
  app.set_version_flag("--version", "", "Print what `muster version` prints");
  app.fallthrough();

  muster::RunVerbOptions run;
  std::string lease = "10s";
  CLI::App* run_app = app.add_subcommand("run", "Run a campaign and print its checked result");
  run_app->add_option("campaign", run.campaign, "Campaign file (YAML)")->type_name("PATH");
  run_app->add_option("--local", run.local, "Local agents to start")
      ->check(CLI::Range(1, 64))
      ->capture_default_str()
      ->type_name("N");
  run_app->add_option("--runs", run.runs_dir, "Where run files lie (default: $XDG_DATA_HOME/muster/runs)")
      ->type_name("PATH");
  run_app->add_option("--lease", lease, "Time after which an agent that is not heard of is lost")
      ->capture_default_str()
      ->type_name("DURATION");
  run_app->add_flag("--keep-raw", run.keep_raw, "Keep the agents' raw reports in the run file");
  run_app->add_flag("--json", run.json, "Print one JSON object a line: progress, then the result");
  run_app->add_flag("-q,--quiet", run.quiet, "No progress");
  run_app
      ->add_option("--resume", run.resume,
                   "Go on with a run that was cut off, cancelled or failed, instead of a campaign: steps that are "
                   "finished stay")
      ->type_name("RUN");
  const std::string controller_help =
      "Controller to ask: HOST[:PORT] or unix:/path (default: $MUSTER_CONTROLLER, or where `muster serve` listens)";
  const auto add_reach = [](CLI::App* verb, muster::ControllerReach& reach, const std::string& help) {
    verb->add_option("--controller", reach.address, help)->type_name("ADDRESS");
    verb->add_option("--ca", reach.tls.ca, "TCP: certificate of the authority (default: $MUSTER_CA)")
        ->type_name("PATH");
    verb->add_option("--cert", reach.tls.cert, "TCP: your certificate (default: $MUSTER_CERT)")->type_name("PATH");
    verb->add_option("--key", reach.tls.key, "TCP: its private key (default: $MUSTER_KEY)")->type_name("PATH");
    verb->add_flag("--insecure-tcp", reach.insecure_tcp, "TCP without TLS, for the lab");
  };
  add_reach(run_app, run.controller,
            "Let a running controller run it: HOST[:PORT] or unix:/path (default: $MUSTER_CONTROLLER; none: run it "
            "here)");
  CLI::Option* agents_option =
      run_app->add_option("--agents", run.agents,
                          "With a controller: use N of the agents that match, and wait for that many (default: all "
                          "that match and are there)");
  agents_option->check(CLI::Range(1, 1024))->type_name("N");
  run_app->add_flag("--detach", run.detach, "With a controller: print the run's id and leave it to itself");
  run_app->footer(
      "Ctrl-C stops after the interval that runs and keeps what was measured; a second one stops at once.\n"
      "A run of a controller goes on when this program is killed; `muster watch` takes it up again.");

  muster::ServeVerbOptions serve;
  std::string serve_lease = "10s", drain = "5m";
  CLI::App* serve_app = app.add_subcommand("serve", "Run a controller that agents and clients dial");
  serve_app
      ->add_option("--listen", serve.listen,
                   "unix:/path or HOST[:PORT], repeatable (default: /run/muster/control.sock as root, else "
                   "$XDG_RUNTIME_DIR/muster/control.sock)")
      ->allow_extra_args(false)
      ->type_name("ADDRESS");
  serve_app->add_option("--ca", serve.tls.ca, "TCP: certificate of the authority that signed agents and users (PEM)")
      ->type_name("PATH");
  serve_app->add_option("--cert", serve.tls.cert, "TCP: certificate of this controller (PEM)")->type_name("PATH");
  serve_app->add_option("--key", serve.tls.key, "TCP: its private key (PEM)")->type_name("PATH");
  serve_app->add_flag("--insecure-tcp", serve.insecure_tcp,
                      "TCP without TLS, for the lab: whoever reaches the port may do everything; results say so");
  serve_app
      ->add_option("--runs", serve.runs_dir,
                   "Where run files lie (default: /var/lib/muster/runs as root, else $XDG_DATA_HOME/muster/runs)")
      ->type_name("PATH");
  serve_app->add_option("--lease", serve_lease, "Time after which an agent that is not heard of is lost")
      ->capture_default_str()
      ->type_name("DURATION");
  serve_app->add_option("--drain", drain, "Bound of ending runs after SIGTERM; then they are stopped at once")
      ->capture_default_str()
      ->type_name("DURATION");
  serve_app->add_option("--log-file", serve.log_file, "Append log lines to this file instead of stderr")
      ->type_name("PATH");
  serve_app->footer(
      "SIGTERM or Ctrl-C: no new runs, running ones end after their interval; a second one stops them at once.\n"
      "SIGHUP or SIGUSR1: the log file is opened anew (logrotate).");

  muster::RemoteVerbOptions remote;
  const auto add_remote = [&](CLI::App* verb) {
    add_reach(verb, remote.controller, controller_help);
    verb->add_flag("--json", remote.json, "Print JSON");
  };
  CLI::App* agents_app = app.add_subcommand("agents", "List the agents of a running controller");
  add_remote(agents_app);
  CLI::App* status_app = app.add_subcommand("status", "Show what a running controller runs and what waits");
  add_remote(status_app);
  status_app->add_flag("--ids", remote.ids_only, "Print ids of runs that wait or go on only, one a line");
  CLI::App* watch_app = app.add_subcommand("watch", "Show a run of a controller until it ends, then its result");
  watch_app->add_option("run", remote.run, "Run id, a unique beginning of one, or `last`")
      ->required()
      ->type_name("RUN");
  add_remote(watch_app);
  watch_app->footer("Ctrl-C ends the watching, not the run. The exit code is the run's.");
  CLI::App* top_app = app.add_subcommand("top", "Show the fleet of a running controller on the whole terminal");
  top_app
      ->add_option(
          "run", remote.run,
          "Run id, a unique beginning of one, or `last` (default: the newest that goes on, one after the other)")
      ->type_name("RUN");
  add_reach(top_app, remote.controller, controller_help);
  top_app->footer(
      "Keys: q or Ctrl-C quit; a agents, i initiators, l links and clocks; s sort by the next column, r reverse;\n"
      "arrows or j k, Page Up and Down or b and blank, Home and End or g and G scroll; Ctrl-L draws anew.\n"
      "Columns that do not fit are left out. It shows alone: the runs go on. Without a terminal use `muster watch`.");
  CLI::App* cancel_app = app.add_subcommand("cancel", "End a run of a controller after the interval that runs");
  cancel_app->add_option("run", remote.run, "Run id, a unique beginning of one, or `last`")
      ->required()
      ->type_name("RUN");
  cancel_app->add_flag("--now", remote.now, "At once");
  add_remote(cancel_app);

  muster::PlanVerbOptions plan;
  bool no_inspect = false;
  CLI::App* plan_app =
      app.add_subcommand("plan", "Show steps, time, bytes and what would be overwritten; change nothing");
  plan_app->add_option("campaign", plan.campaign, "Campaign file (YAML)")->required()->type_name("PATH");
  plan_app->add_flag("--no-inspect", no_inspect, "Do not look at the targets");
  plan_app->add_flag("--json", plan.json, "Print JSON");

  muster::ProbeVerbOptions probe;
  CLI::App* targets_app = app.add_subcommand("targets", "Look at what would be measured");
  targets_app->require_subcommand(1);
  CLI::App* probe_app =
      targets_app->add_subcommand("probe", "Log in to a target and show what it offers; reads only, writes nothing");
  probe_app->add_option("what", probe.what, "CAMPAIGN:NAME, or iscsi://HOST[:PORT]/IQN[/LUN]")
      ->required()
      ->type_name("CAMPAIGN:NAME | iscsi://PORTAL/IQN[/LUN]");
  probe_app->add_option("--user", probe.user, "CHAP user")->type_name("NAME");
  probe_app->add_option("--secret", probe.secret, "Where its secret is: env:NAME or file:PATH")->type_name("REFERENCE");
  probe_app->add_option("--mutual-user", probe.mutual_user, "Name the target must answer with")->type_name("NAME");
  probe_app->add_option("--mutual-secret", probe.mutual_secret, "Where the target's secret is: env:NAME or file:PATH")
      ->type_name("REFERENCE");
  probe_app->add_option("--initiator", probe.initiator, "Name to log in with (default: the first of a campaign)")
      ->type_name("IQN");
  probe_app->add_option("--source", probe.source, "Local address to connect from")->type_name("ADDRESS");
  probe_app->add_flag("--header-digest", probe.header_digest, "Ask for CRC32C header digests");
  probe_app->add_flag("--json", probe.json, "Print JSON");
  probe_app->footer(
      "Shows names, ISID, negotiated parameters and command window, and of every LUN the target reports: identity,\n"
      "size, blocks, caching, FUA, unmap, limits, and what the write guard says of it. LUNs that are meant are marked "
      "*.\n"
      "The options are for iscsi:// alone: of a target in a campaign, the campaign says it.\n"
      "Exit code 1: the campaign writes what the guard refuses.");

  muster::ResultsOptions results;
  CLI::App* results_app = app.add_subcommand("results", "List, show and export stored runs");
  results_app->require_subcommand(1);
  results_app->add_option("--runs", results.runs_dir, "Where run files lie (default: $XDG_DATA_HOME/muster/runs)")
      ->type_name("PATH");
  CLI::App* list_app = results_app->add_subcommand("list", "List runs, newest first");
  list_app->add_flag("--json", results.json, "Print JSON");
  list_app->add_flag("--ids", results.ids_only, "Print ids only, one a line");
  CLI::App* show_app = results_app->add_subcommand("show", "Show a run: figures, checks, evidence");
  show_app->add_option("run", results.run, "Run id, a unique beginning of one, `last`, or a run file")
      ->capture_default_str()
      ->type_name("RUN");
  show_app
      ->add_option("--step", results.step,
                   "Only the step of this name, or of this number in plan and progress (from 1)")
      ->type_name("STEP");
  show_app->add_flag("--json", results.json, "Print JSON");
  CLI::App* export_app = results_app->add_subcommand("export", "Write a run as JSON, CSV or HdrHistogram log");
  export_app->add_option("run", results.run, "Run id, a unique beginning of one, `last`, or a run file")
      ->capture_default_str()
      ->type_name("RUN");
  export_app->add_option("--format", results.format, "json, csv or hlog")
      ->check(CLI::IsMember({"json", "csv", "hlog"}))
      ->capture_default_str()
      ->type_name("FORMAT");
  export_app->add_option("-o,--output", results.output, "File to write (default: stdout)")->type_name("PATH");
  export_app->add_flag("--intervals", results.intervals,
                       "csv: one row an interval instead of one a step, group and kind");
  export_app->add_flag("--histograms", results.histograms,
                       "json: counters of every histogram spelled out, of every interval too (large)");

  CLI::App* help_app = app.add_subcommand("help", "Help on a topic");
  help_app->require_subcommand(1);
  bool help_json = false, help_markdown = false;
  CLI::App* help_campaign = help_app->add_subcommand("campaign", "Every option of a campaign file");
  help_campaign->add_flag("--json", help_json, "Print JSON");
  help_campaign->add_flag("--markdown", help_markdown, "Print a Markdown table");

  bool version_json = false;
  CLI::App* version_app = app.add_subcommand("version", "Version, build and API range");
  version_app->add_flag("--json", version_json, "Print JSON");

  std::string shell;
  CLI::App* completion_app = app.add_subcommand("completion", "Print a shell completion script");
  completion_app->add_option("shell", shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->type_name("SHELL");
  completion_app->footer("bash: source <(muster completion bash)\nfish: muster completion fish | source");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return ParseEnded(app, error, argc, argv);
  }

  // A service is read in its log; a command on its result.
  if (serve_app->parsed() && app.count("--log-level") == 0) log_level = "info";
  muster::InitLogging("muster", LevelOf(log_level));
  google::protobuf::SetLogHandler(LogProtobuf);
  CatchSignals();
  if (serve_app->parsed()) {
    if (!ReadDuration("--lease", serve_lease, serve.lease) || !ReadDuration("--drain", drain, serve.drain)) {
      return muster::kExitUsage;
    }
    // Reopening a log ends nothing, so nohup needs no exception here.
    Catch({SIGHUP, SIGUSR1}, OnReopen, /*always=*/true);
    return muster::ServeVerb(serve, g_cancel, g_reopen);
  }
  if (agents_app->parsed()) return muster::AgentsVerb(remote);
  if (status_app->parsed()) return muster::StatusVerb(remote);
  if (watch_app->parsed()) {
    Catch({SIGTERM, SIGHUP}, OnLeave);
    return muster::WatchVerb(remote, g_cancel, g_leave);
  }
  if (top_app->parsed()) {
    Catch({SIGTERM, SIGHUP}, OnLeave);
    return muster::TopVerb(remote, g_cancel, g_leave);
  }
  if (cancel_app->parsed()) return muster::CancelVerb(remote);
  if (run_app->parsed()) {
    verb = Verb::kRuns;
    const char* named = getenv("MUSTER_CONTROLLER");
    const bool local = run_app->count("--local") > 0;
    run.remote = run_app->count("--controller") > 0 || (!local && named != nullptr && named[0] != 0);
    const std::vector<const char*> misplaced =
        run.remote ? std::vector{"--local", "--runs", "--lease", "--resume"}
                   : std::vector{"--agents", "--detach", "--ca", "--cert", "--key", "--insecure-tcp"};
    if (run.campaign.empty() == run.resume.empty()) {
      muster::Err("muster: run: {}\n",
                  run.resume.empty()
                      ? "a campaign file is needed, or --resume RUN [MISSING_ARGUMENT] Run muster run --help."
                      : "a run to --resume has its campaign in its run file [USAGE] Leave the campaign out.");
      return muster::kExitUsage;
    }
    for (const char* option : misplaced) {
      if (run_app->count(option) == 0) continue;
      muster::Err("muster: {}: it is for runs {} a controller [USAGE]\n", option, run.remote ? "without" : "of");
      return muster::kExitUsage;
    }
    if (run.remote) Catch({SIGTERM, SIGHUP}, OnLeave);
    if (!ReadDuration("--lease", lease, run.lease)) return muster::kExitUsage;
    run.log_level = log_level;
    return muster::RunVerb(run, g_cancel, g_leave);
  }
  if (plan_app->parsed()) {
    plan.inspect = !no_inspect;
    plan.log_level = log_level;
    return muster::PlanVerb(plan, g_cancel);
  }
  if (probe_app->parsed()) {
    probe.log_level = log_level;
    return muster::TargetsProbeVerb(probe, g_cancel);
  }
  if (list_app->parsed()) return muster::ResultsListVerb(results);
  if (show_app->parsed()) return muster::ResultsShowVerb(results);
  if (export_app->parsed()) return muster::ResultsExportVerb(results);
  if (help_campaign->parsed()) return muster::HelpCampaignVerb(help_json, help_markdown);
  if (version_app->parsed()) return muster::VersionVerb(version_json);
  if (completion_app->parsed()) {
    muster::PutOut(muster::CompletionScript(shell, TreeOf(app)));
    return muster::kExitOk;
  }
  return muster::kExitUsage;
}

}  // namespace

int main(int argc, char** argv) {
  muster::HoldStandardFds();
  signal(SIGPIPE, SIG_IGN);  // a reader that closes is seen by the write
  Verb verb = Verb::kReads;
  const int code = RunMain(argc, argv, verb);
  const muster::OutState out = muster::FlushOut();
  if (out == muster::OutState::kWhole) return code;
  const bool reader_gone = out == muster::OutState::kReaderGone;
  if (reader_gone && verb == Verb::kReads) return code;
  muster::PutErr("muster: standard output could not be written, results are missing from it [OUTPUT_FAILED]\n");
  // The run file holds what the reader of a pipe did not want: that is no failure of the run.
  return code == muster::kExitOk && !reader_gone ? muster::kExitInfrastructure : code;
}
