#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "common/base/status.h"
#include "controller/cli/output.h"
#include "controller/cli/session.h"
#include "controller/cli/verbs.h"
#include "controller/report/report.h"

namespace muster {
namespace {

std::string RunsDir(const ResultsOptions& options) {
  return options.runs_dir.empty() ? DefaultRunsDir() : options.runs_dir;
}

// A run that does not exist is the user's mistake, a file that cannot be read is not.
int ExitCodeOf(const absl::Status& error) {
  return absl::IsNotFound(error) || absl::IsInvalidArgument(error) ? kExitUsage : kExitInfrastructure;
}

absl::StatusOr<std::unique_ptr<RunReader>> OpenRun(const ResultsOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(std::string path, ResolveRun(RunsDir(options), options.run));
  return RunReader::Open(path);
}

size_t TerminalWidth() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 40) return size.ws_col;
  return 100;
}

}  // namespace

int ResultsListVerb(const ResultsOptions& options) {
  const auto runs = ListRuns(RunsDir(options));
  if (options.ids_only) {
    for (const RunSummary& run : runs) Out("{}\n", run.id);
  } else {
    Out("{}", options.json ? RunListJson(runs) : FormatRunList(runs));
  }
  return kExitOk;
}

int ResultsShowVerb(const ResultsOptions& options) {
  auto reader = OpenRun(options);
  if (!reader.ok()) return Fail(reader.status(), options.json, ExitCodeOf(reader.status()));
  DetailOptions detail;
  detail.step = options.step;
  detail.width = TerminalWidth();
  auto text = options.json ? RunJson(**reader) : FormatResults(**reader, detail);
  if (!text.ok()) return Fail(text.status(), options.json, ExitCodeOf(text.status()));
  Out("{}", *text);
  return kExitOk;
}

int ResultsExportVerb(const ResultsOptions& options) {
  const bool rows = options.intervals && options.format == "csv";
  if (options.intervals && !rows) {
    return Fail(MakeError(absl::StatusCode::kInvalidArgument,
                          {.code = "CONTRADICTION",
                           .place = "--intervals",
                           .message = "only csv has a form with one row an interval",
                           .next = "Give --format csv; json and hlog always hold the intervals."}),
                false, kExitUsage);
  }
  auto format = ParseExportFormat(rows ? "csv-intervals" : options.format);
  if (!format.ok()) return Fail(format.status(), false, kExitUsage);
  auto reader = OpenRun(options);
  if (!reader.ok()) return Fail(reader.status(), false, ExitCodeOf(reader.status()));
  absl::Status status;
  if (options.output.empty()) {
    status = Export(**reader, *format, std::cout);
    std::cout.flush();
    if (status.ok() && !std::cout) {
      status = MakeError(absl::StatusCode::kInternal,
                         {.code = "EXPORT_FAILED", .place = "standard output", .message = "could not be written"});
    }
  } else {
    status = ExportToFile(**reader, *format, options.output);
  }
  return status.ok() ? kExitOk : Fail(status, false, kExitInfrastructure);
}

}  // namespace muster
