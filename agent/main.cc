// muster-agent: reads flags and wires clock, driver and link together.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "agent/link/grpc_link.h"
#include "agent/probe/host_facts.h"
#include "agent/session/driver.h"
#include "agent/session/driver_watch.h"
#include "common/base/clock.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/base/std_fds.h"
#include "common/base/thread.h"
#include "common/base/units.h"
#include "common/cli/usage.h"
#include "common/plan/labels.h"
#include "common/wire/version.h"

namespace muster::agent {
namespace {

constexpr int kUsage = 2;
constexpr int kInfrastructure = 3;

struct Flags {
  std::string controller;
  TlsFiles tls;
  bool insecure_tcp = false;
  std::string id;
  std::vector<std::string> roots;
  std::vector<std::string> devices;
  std::vector<std::string> labels;
  uint32_t workers = 0;
  std::string max_buffer_memory;
  size_t report_bound = EngineOptions().report_bound;
  std::string pin = "auto";
  int exit_with_fd = -1;
  bool once = false;
  std::string log_level = "info";
  std::string test_api;
};

constexpr char kAbout[] =
    "muster-agent drives load from this host for a muster controller. It dials the controller, which alone decides "
    "what\n"
    "is done, and touches nothing here but what --allow-root and --allow-device name. It ends its load when the\n"
    "controller is gone for longer than its lease.\n"
    "\n"
    "Exit codes: 0 ended as asked, 2 wrong usage, 3 the controller was lost or something is stuck.";

void Declare(CLI::App& app, Flags& flags) {
  app.add_option("--controller", flags.controller, "Where the controller listens: HOST[:PORT] or unix:/path/of/socket");
  app.add_option("--ca", flags.tls.ca, "TCP: certificate of the authority that signed the controller's (PEM)");
  app.add_option("--cert", flags.tls.cert, "TCP: certificate of this agent (PEM)");
  app.add_option("--key", flags.tls.key, "TCP: its private key (PEM)");
  app.add_flag("--insecure-tcp", flags.insecure_tcp,
               "TCP without TLS, for the lab: whoever is at that address commands this agent");
  app.add_option("--id", flags.id,
                 "Name of this agent, stable over restarts (default: that of its certificate, or the host name)");
  app.add_option("--allow-root", flags.roots, "Directory below which file targets may lie; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--allow-device", flags.devices, "Block device that may be used; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--label", flags.labels,
                 "NAME=VALUE that campaigns choose agents by (initiators: {match: {rack: b}}); may be repeated")
      ->allow_extra_args(false);
  app.add_option("--workers", flags.workers, "Worker threads at most (default: the CPUs this process may run on)");
  app.add_option("--max-buffer-memory", flags.max_buffer_memory,
                 "Bound of I/O buffers, e.g. 2GiB (default: a quarter of RAM)");
  app.add_option("--pin", flags.pin,
                 "Pin workers to CPUs and spin for pacing; auto: for a paced load when no other agent runs here")
      ->check(CLI::IsMember({"auto", "yes", "no"}))
      ->capture_default_str();
  app.add_option("--exit-with-fd", flags.exit_with_fd, "End when the far end of this inherited pipe is closed");
  app.add_flag("--once", flags.once,
               "End when the controller says goodbye or a session with it is lost, instead of dialling again");
  app.add_option("--log-level", flags.log_level, "What to log to stderr")
      ->check(CLI::IsMember({"debug", "info", "warn", "error", "off"}))
      ->capture_default_str();
  app.set_version_flag(
      "--version", [] { return fmt::format("muster-agent {} (API {}..{})", BuildString(), kApiMin, kApiMax); },
      "Print version, build and API range");
  app.add_option("--report-bound", flags.report_bound,
                 "Bytes of one initiator's part of an interval report; beyond it histograms come once a window")
      ->group("");
  app.add_option("--test-api", flags.test_api, "API range to claim, MIN-MAX")->group("");
}

int Usage(const std::string& text) {
  fmt::print(stderr, "muster-agent: {}\nRun muster-agent --help.\n", text);
  return kUsage;
}

LogLevel LevelOf(const std::string& name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "warn") return LogLevel::kWarning;
  if (name == "error") return LogLevel::kError;
  return name == "off" ? LogLevel::kOff : LogLevel::kInfo;
}

Hello MakeHello(const Flags& flags, const HostFacts& host, const ApiRange& api) {
  Hello hello{.api_min = api.min,
              .api_max = api.max,
              .build = std::string(BuildString()),
              .capabilities = {"null", "uring", "iscsi"},
              .agent_id = flags.id,
              .host_id = host.host_id,
              .boot_id = host.boot_id,
              .hostname = host.host_name,
              .time_namespace = host.time_namespace};
  // Tells two processes of one agent id apart; 0 would look like none.
  while (hello.instance == 0) {
    if (getrandom(&hello.instance, sizeof(hello.instance), 0) < 0) hello.instance = static_cast<uint64_t>(getpid());
  }
  hello.host_facts = {
      {"cpu", host.cpu_model}, {"kernel", host.kernel}, {"allowed CPUs", fmt::format("{}", host.allowed_cpus.size())}};
  return hello;
}

// Fills `api`, `address` and `options`; not OK: wrong usage.
absl::Status Read(Flags& flags, const HostFacts& host, ApiRange& api, ControllerAddress& address,
                  DriverOptions& options) {
  const auto wrong = [](std::string place, std::string message) {
    return MakeError(absl::StatusCode::kInvalidArgument,
                     {.code = "USAGE", .place = std::move(place), .message = std::move(message), .next = ""});
  };
  if (flags.controller.empty()) return wrong("--controller", "HOST[:PORT] or unix:/path of a socket is needed");
  auto endpoint = ParseEndpoint(flags.controller);
  if (!endpoint.ok()) return AtPlace(endpoint.status(), "--controller");
  address.endpoint = *endpoint;
  address.tls = flags.tls;
  address.insecure = flags.insecure_tcp;
  if ((endpoint->is_unix() || flags.insecure_tcp) && flags.tls.any()) {
    return wrong("--ca, --cert, --key", "they are for TCP with TLS alone");
  }
  if (endpoint->is_unix() && flags.insecure_tcp) return wrong("--insecure-tcp", "a Unix socket needs no TLS");
  if (!endpoint->is_unix() && !flags.insecure_tcp) {
    auto tls = LoadTls(flags.tls, TlsUse::kAgent, WallMicros() / 1'000'000);
    if (!tls.ok()) return tls.status();
    if (flags.id.empty()) flags.id = tls->identity->name;
    if (flags.id != tls->identity->name) {
      return wrong("--id", fmt::format("the certificate {} is that of agent {}", flags.tls.cert, tls->identity->name));
    }
  }
  if (flags.id.empty()) flags.id = host.host_name;
  if (flags.id.empty() || flags.id.size() > 64) return wrong("--id", "a name of 1 to 64 characters is needed");
  for (const std::string& path : flags.roots) {
    if (path.empty() || path[0] != '/') return wrong("--allow-root", "\"" + path + "\" is no absolute path");
  }
  for (const std::string& path : flags.devices) {
    if (path.empty() || path[0] != '/') return wrong("--allow-device", "\"" + path + "\" is no absolute path");
  }
  Labels labels;
  for (const std::string& text : flags.labels) {
    auto label = ParseLabel(text);
    if (!label.ok()) return AtPlace(label.status(), "--label");
    if (!labels.insert(*std::move(label)).second) return wrong("--label", "\"" + text + "\": this name is given twice");
  }
  if (labels.size() > kMaxLabels) return wrong("--label", fmt::format("at most {} labels", kMaxLabels));
  if (!flags.max_buffer_memory.empty()) {
    auto size = ParseSize(flags.max_buffer_memory);
    if (!size.ok()) return AtPlace(size.status(), "--max-buffer-memory");
    options.engine.max_buffer_memory = *size;
  }
  if (flags.exit_with_fd >= 0 && fcntl(flags.exit_with_fd, F_GETFD) < 0) {
    return wrong("--exit-with-fd", fmt::format("{} is no open descriptor", flags.exit_with_fd));
  }
  if (!flags.test_api.empty() && sscanf(flags.test_api.c_str(), "%u-%u", &api.min, &api.max) != 2) {
    return wrong("--test-api", "MIN-MAX is needed");
  }
  options.allow = {.roots = flags.roots, .devices = flags.devices};
  options.engine.cpus = AllowedCpus();
  options.engine.max_workers = flags.workers;
  options.engine.report_bound = flags.report_bound;
  options.pin = flags.pin == "yes" ? PinMode::kYes : flags.pin == "no" ? PinMode::kNo : PinMode::kAuto;
  options.session.once = flags.once;
  options.session.hello = MakeHello(flags, host, api);
  options.session.hello.labels.assign(labels.begin(), labels.end());
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  CLI::App app(kAbout, "muster-agent");
  Flags flags;
  Declare(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Help and version are told by the parser; the rest is an error of ours.
    if (error.get_exit_code() == 0) return app.exit(error);
    fmt::print(stderr, "muster-agent: {}\n", FormatError(UsageError(app, error)));
    return kUsage;
  }
  ExitWatch::BlockSignals();
  const HostFacts host = ReadHostFacts();
  DriverOptions options;
  ApiRange api;
  ControllerAddress address;
  if (const absl::Status status = Read(flags, host, api, address, options); !status.ok()) {
    return Usage(FormatError(status));
  }
  InitLogging("agent " + flags.id, LevelOf(flags.log_level));
  if (flags.insecure_tcp) {
    Log(LogLevel::kWarning, "--insecure-tcp: whoever answers at {} commands this agent; for the lab only",
        address.endpoint.Text());
  }

  const Clock& clock = SteadyClock::Get();
  auto driver = SessionDriver::Create(std::move(options), clock);
  SessionDriver::Result result;
  {
    auto link = MakeGrpcLink(address, clock, driver->link_listener());
    const ExitWatch watch(flags.exit_with_fd, [&](const std::string& why) { driver->Shutdown(why); });
    result = driver->Run(*link);
  }
  if (!result.clean) {
    // A thread sits in a system call that does not return: its join would not either.
    fflush(nullptr);
    _exit(result.exit_code == 0 ? kInfrastructure : result.exit_code);
  }
  return result.exit_code;
}

}  // namespace
}  // namespace muster::agent

int main(int argc, char** argv) {
  muster::HoldStandardFds();
  return muster::agent::Main(argc, argv);
}
