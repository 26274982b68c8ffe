#pragma once
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/store/run_store.h"

// What people and programs see of stored runs. Pure functions of a RunReader: no clock, no terminal, no colour. They
// block on reading the run file and return its errors (RUN_DAMAGED). Text is UTF-8 and ends with a newline; JSON is
// one document with keys in a fixed order, ended with a newline. Schema and columns: controller/report/README.md.
namespace muster {

// ---- Text for terminals

// One row a run, newest first as given.
std::string FormatRunList(const std::vector<RunSummary>& runs);
// One row a step: outcome, initiators, load, IOPS, MB/s, mean, p50, p99, p99.9, max, depth. INVALID and its reason
// stand by the figures they belong to. Latency is response.
absl::StatusOr<std::string> FormatResultsTable(RunReader& reader);
struct DetailOptions {
  std::string step;    // only the step of this name or index; empty: all
  size_t width = 100;  // columns of the terminal, for the line of IOPS per interval
};
// The table, then each step whole: rows by kind and initiator, wait, service and response, IOPS per interval as a line,
// checks with their evidence, errors, stragglers, facts. STEP_UNKNOWN when `step` names none.
absl::StatusOr<std::string> FormatResults(RunReader& reader, const DetailOptions& options = {});

// ---- JSON

// What `results list --json` prints.
std::string RunListJson(const std::vector<RunSummary>& runs);
// What `run --json` and `results show --json` print: all figures of all steps; neither intervals nor counters of
// histograms.
absl::StatusOr<std::string> RunJson(RunReader& reader);

// ---- Exports

enum class ExportFormat {
  kJson,            // RunJson plus intervals, and the histograms of the window packed
  kJsonHistograms,  // everything kept: every histogram, those of intervals too, with its counters spelled out
  kCsv,             // one row a (step, fleet or initiator, kind)
  kCsvIntervals,    // one row a (step, interval, fleet or initiator, kind)
  kHlog,            // HdrHistogram log: fleet response a (step, interval, kind); tag STEP/KIND
};
// "json", "json-histograms", "csv", "csv-intervals", "hlog"; FORMAT_UNKNOWN names them.
absl::StatusOr<ExportFormat> ParseExportFormat(std::string_view name);
absl::Status Export(RunReader& reader, ExportFormat format, std::ostream& out);
// To a file beside which a temporary one is written, flushed and renamed: the file is either whole or as it was.
// A link is followed; a pipe or character device is written through, a block device refused. EXPORT_FAILED names the
// path.
absl::Status ExportToFile(RunReader& reader, ExportFormat format, const std::string& path);

}  // namespace muster
