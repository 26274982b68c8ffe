#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/tls/credentials.h"

// The verbs of `muster`, with options already read. Each prints results on stdout, everything else on stderr, and
// returns the exit code: 0 ok, 1 verdict failed, 2 usage, 3 infrastructure.
namespace muster {

inline constexpr int kExitOk = 0;
inline constexpr int kExitVerdict = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitInfrastructure = 3;

// A controller that runs already, and as whom it is asked.
struct ControllerReach {
  std::string address;        // empty: $MUSTER_CONTROLLER, or the usual socket
  TlsFiles tls;               // what is empty: $MUSTER_CA, $MUSTER_CERT, $MUSTER_KEY
  bool insecure_tcp = false;  // TCP without TLS
};

struct RunVerbOptions {
  std::string campaign;
  uint32_t local = 1;
  std::string runs_dir;  // empty: DefaultRunsDir()
  std::string resume;    // a run to go on with instead of a campaign
  bool json = false;
  bool quiet = false;
  bool keep_raw = false;
  Nanos lease = 10 * kSecond;
  std::string log_level = "warn";
  // Run by a controller elsewhere instead of one in this process.
  bool remote = false;
  ControllerReach controller;
  uint32_t agents = 0;  // use so many of those that match; 0: all that are there
  bool detach = false;  // submit and leave
};
// `cancel` is raised by signals: 1 stops after the interval that runs, 2 at once. `leave`: a remote run is only left.
int RunVerb(const RunVerbOptions& options, const std::atomic<int>& cancel, const std::atomic<int>& leave);

struct ServeVerbOptions {
  std::vector<std::string> listen;  // endpoints; empty: the usual socket
  TlsFiles tls;
  bool insecure_tcp = false;
  std::string runs_dir;  // empty: the usual place
  Nanos lease = 10 * kSecond;
  Nanos drain = 5 * kMinute;
  std::string log_file;  // empty: stderr
};
// Serves until `stop` is raised: 1 drains, 2 ends at once. `reopen` is counted up to reopen the log file.
int ServeVerb(const ServeVerbOptions& options, const std::atomic<int>& stop, const std::atomic<int>& reopen);

// Verbs that ask a controller which runs already.
struct RemoteVerbOptions {
  ControllerReach controller;
  std::string run;        // watch, cancel: id, a unique beginning of one, or "last"
  bool now = false;       // cancel: at once
  bool ids_only = false;  // status: ids of runs that wait or go on
  bool json = false;
};
int AgentsVerb(const RemoteVerbOptions& options);
int StatusVerb(const RemoteVerbOptions& options);
// Shows a run until it ends; the exit code is the run's. An interrupt ends the watching, not the run.
int WatchVerb(const RemoteVerbOptions& options, const std::atomic<int>& cancel, const std::atomic<int>& leave);
int CancelVerb(const RemoteVerbOptions& options);

struct PlanVerbOptions {
  std::string campaign;
  bool json = false;
  bool inspect = true;  // start one local agent and let it look at the targets
  std::string log_level = "warn";
};
int PlanVerb(const PlanVerbOptions& options, const std::atomic<int>& cancel);

struct ProbeVerbOptions {
  std::string what;  // "CAMPAIGN:NAME" or "iscsi://PORTAL/IQN[/LUN]"
  // The rest is for iscsi:// alone; secrets are references ("env:NAME", "file:PATH").
  std::string user, secret, mutual_user, mutual_secret;
  std::string initiator, source;
  bool header_digest = false;
  bool json = false;
  std::string log_level = "warn";
};
// Looks at one target through a local agent; reads only.
int TargetsProbeVerb(const ProbeVerbOptions& options, const std::atomic<int>& cancel);

struct ResultsOptions {
  std::string runs_dir;
  std::string run = "last";
  std::string format = "json";  // export: json, csv, hlog
  std::string output;           // export: file; empty: stdout
  bool intervals = false;       // export csv: one row an interval
  bool histograms = false;      // export json: every histogram with its counters
  bool ids_only = false;        // list
  std::string step;             // show: only this step
  bool json = false;
};
int ResultsListVerb(const ResultsOptions& options);
int ResultsShowVerb(const ResultsOptions& options);
int ResultsExportVerb(const ResultsOptions& options);

int HelpCampaignVerb(bool json, bool markdown);
int VersionVerb(bool json);

// One node of the command tree, for completion.
struct CommandNode {
  std::string name;
  std::string help;
  struct Option {
    std::vector<std::string> names;  // "--json"
    std::string help;
    std::vector<std::string> choices;  // closed set, else empty
    bool takes_value = false;
    bool is_path = false;
  };
  std::vector<Option> options;
  std::vector<CommandNode> commands;
  bool takes_path = false;                       // positional file
  bool takes_run = false;                        // positional run id
  std::string runs_from = "results list --ids";  // what prints those ids, one a line
};
// The completion script for bash, zsh or fish; an empty string for another shell.
std::string CompletionScript(const std::string& shell, const CommandNode& root);

}  // namespace muster
