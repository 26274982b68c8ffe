#include <fmt/format.h>

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

// The directory of one's own is made by the first run: until then it holds none.
absl::Status CheckDir(const ResultsOptions& options) {
  absl::Status status = CheckRunsDir(RunsDir(options));
  return options.runs_dir.empty() && absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::StatusOr<std::unique_ptr<RunReader>> OpenRun(const ResultsOptions& options) {
  const auto path = ResolveRun(RunsDir(options), options.run);
  if (!path.ok()) {
    // Where runs were looked for in vain says more than that there are none.
    MUSTER_RETURN_IF_ERROR(CheckDir(options));
    return path.status();
  }
  return RunReader::Open(*path);
}

}  // namespace

int ResultsListVerb(const ResultsOptions& options) {
  if (const absl::Status dir = CheckDir(options); !dir.ok()) return Fail(dir, options.json, ExitCodeOf(dir));
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
  detail.width = OutWidth(40, 1000, 100);
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
  if (options.histograms && options.format != "json") {
    return Fail(MakeError(absl::StatusCode::kInvalidArgument,
                          {.code = "CONTRADICTION",
                           .place = "--histograms",
                           .message = "only json has a form with every histogram spelled out",
                           .next = "Give --format json; hlog always holds those of the intervals, csv none."}),
                false, kExitUsage);
  }
  auto format = ParseExportFormat(rows ? "csv-intervals" : options.histograms ? "json-histograms" : options.format);
  if (!format.ok()) return Fail(format.status(), false, kExitUsage);
  auto reader = OpenRun(options);
  if (!reader.ok()) return Fail(reader.status(), false, ExitCodeOf(reader.status()));
  absl::Status status;
  if (options.output.empty()) {
    status = Export(**reader, *format, OutStream());
    // Whoever reads no further has what it wanted: no error, whatever the writer has to say of it.
    if (FlushOut() == OutState::kReaderGone) return kExitOk;
    if (status.ok() && !OutStream()) {
      status = MakeError(absl::StatusCode::kInternal,
                         {.code = "EXPORT_FAILED", .place = "standard output", .message = "could not be written"});
    }
  } else {
    status = ExportToFile(**reader, *format, options.output);
  }
  return status.ok() ? kExitOk : Fail(status, false, kExitInfrastructure);
}

}  // namespace muster
