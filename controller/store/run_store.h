#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/plan/plan.h"
#include "common/stats/op_stats.h"
#include "controller/aggregate/figures.h"

namespace muster {

struct RunHeader {
  std::string id;  // directory name: 20261130-164500-name-ab12
  std::string campaign_name;
  std::string campaign_text;  // as read; secrets are references in it
  std::string build;
  int64_t started_wall_micros = 0;
};

struct RunAgent {
  std::string id, host_id, boot_id, hostname, build;
  std::vector<std::pair<std::string, std::string>> facts;
};

// One agent report as it came, a log until its phase is sealed.
struct RawReport {
  std::string agent;
  uint64_t sequence = 0;
  PhaseKey key;
  std::string bytes;  // serialized v1::ReportMessage
};

struct StoreOptions {
  bool keep_raw = false;  // keep the raw reports of sealed phases
  // How long initiator histograms per interval are kept, whichever ends first.
  Nanos retention_age = 24 * kHour;
  uint64_t retention_bytes = uint64_t{2} << 30;
  const Clock* clock = nullptr;  // for the age; none: the steady clock. Outlives the writer
};

// Writes one run file (runs/<id>/run.db: SQLite, WAL, synchronous=NORMAL, FULL at the end of a phase). All methods are
// called on the store thread and block on the disk. A lock file beside it admits one writer. Errors are typed:
// STORE_LOCKED (names the holder), STORE_EXISTS, STORE_FULL (disk full: names path and need), STORE_BUSY (a reader
// holds the file for more than 5 s), STORE_FAILED. A write that failed left nothing; it may be tried again.
class RunWriter {
 public:
  // Creates directory and file. `keep_raw` keeps the raw reports.
  static absl::StatusOr<std::unique_ptr<RunWriter>> Create(const std::string& runs_dir, const RunHeader& header,
                                                           const StoreOptions& options);
  static absl::StatusOr<std::unique_ptr<RunWriter>> Create(const std::string& runs_dir, const RunHeader& header,
                                                           bool keep_raw) {
    StoreOptions options;
    options.keep_raw = keep_raw;
    return Create(runs_dir, header, options);
  }
  // Opens the file of a run that has ended, or whose controller has, to go on with it (store/resume.h says with what):
  // it is "running" again, and its agents are those that are written now. STORE_LOCKED while somebody writes it.
  static absl::StatusOr<std::unique_ptr<RunWriter>> Resume(const std::string& path, const StoreOptions& options);
  // Opens the file of a run whose controller has ended, to add what its agents still hold (CommitReports) and to end it
  // (Finish): plan and agents stay as they are. STORE_LOCKED.
  static absl::StatusOr<std::unique_ptr<RunWriter>> TakeUp(const std::string& path);
  virtual ~RunWriter() = default;
  virtual std::string path() const = 0;  // of run.db
  virtual absl::Status WritePlan(const Plan& plan) = 0;
  virtual absl::Status WriteAgent(const RunAgent& agent) = 0;
  // One transaction; when it returns OK the reports are committed and may be acknowledged. A sequence that is there
  // already is left as it is: a report sent again after a lost acknowledgement.
  virtual absl::Status CommitReports(const std::vector<RawReport>& reports) = 0;
  virtual absl::Status WriteInterval(const PhaseKey& key, const FleetInterval& interval) = 0;
  // Result of a step, its initiators' window histograms, checks; then the phase's raw reports are deleted, and those of
  // earlier attempts, which this result replaces; all in one transaction with synchronous=FULL.
  virtual absl::Status SealStep(const PhaseKey& measure, const StepResult& result) = 0;
  // A phase without figures (fill): drops its raw reports.
  virtual absl::Status SealPhase(const PhaseKey& key) = 0;
  virtual absl::Status WriteEvent(int64_t wall_micros, const std::string& text) = 0;
  // "complete", "cancelled", "failed", "aborted", "interrupted"; after it the file is checkpointed into one file (no
  // -wal left). On a full disk space set aside at the start is used, so that the outcome and its reason are kept; the
  // error is of what could not be done after that.
  virtual absl::Status Finish(const std::string& outcome, const std::string& message, int64_t wall_micros) = 0;
};

struct RunSummary {
  std::string id, path, campaign_name;
  std::string outcome;  // as finished; before that "running", or "interrupted" when nobody is writing it
  std::string message;
  int64_t started_wall_micros = 0, finished_wall_micros = 0;
  uint32_t steps = 0, valid = 0, invalid = 0;  // planned; of those with a result
  // Of a run that is not being written: names of steps with committed reports that nobody sealed; when reports or the
  // end of a phase were last committed (0: never), and of which step.
  std::vector<std::string> unsealed;
  int64_t committed_wall_micros = 0;
  std::string committed_step;
};

struct RunIntervals {
  uint32_t step = 0;
  std::vector<FleetInterval> intervals;  // initiators filled as far as kept
};

// Reads a run file, also while it is being written. Thread-compatible. Typed errors RUN_UNKNOWN (with the ids that
// are near), RUN_DAMAGED, RUN_NEWER and RUN_OLDER (written by a release with another layout). Blocks on the disk.
// Rows that are gone or changed since they were written are RUN_DAMAGED, naming file, step and table (store/tally.h).
class RunReader {
 public:
  // `path`: run.db or its directory.
  static absl::StatusOr<std::unique_ptr<RunReader>> Open(const std::string& path);
  virtual ~RunReader() = default;
  // Looks at the run's own records and at the number of rows of each step, but does not read those: a list is quick.
  virtual absl::StatusOr<RunSummary> Summary() = 0;
  virtual absl::StatusOr<RunHeader> Header() = 0;
  virtual absl::StatusOr<std::vector<RunAgent>> Agents() = 0;
  // Of the latest attempt of each step, in the order of the plan. Reads and checks everything the file has of them. Of
  // a run that nobody is writing any more, steps whose reports are committed but not sealed are there too: INTERRUPTED,
  // with the figures of what all agents had committed, never VALID.
  virtual absl::StatusOr<std::vector<StepResult>> Results() = 0;
  // As checked: of an INTERRUPTED step those that all agents had committed.
  virtual absl::StatusOr<RunIntervals> Intervals(uint32_t step) = 0;
  // The same one by one, in order: hours of many initiators do not fit into memory. Ends with the first error of
  // `visit`, and returns it; `visit` must not use this reader.
  virtual absl::Status VisitIntervals(uint32_t step,
                                      const std::function<absl::Status(const FleetInterval&)>& visit) = 0;
  virtual absl::StatusOr<std::vector<std::pair<int64_t, std::string>>> Events() = 0;
  // Reports that no sealed phase has used up, by agent and sequence: after a crash, what was acknowledged.
  virtual absl::StatusOr<std::vector<RawReport>> RawReports() = 0;
};

// $XDG_DATA_HOME/muster/runs, or ~/.local/share/muster/runs.
std::string DefaultRunsDir();
// Runs below a directory, newest first; damaged files are listed with outcome "damaged".
// At most the newest `most` by id.
std::vector<RunSummary> ListRuns(const std::string& runs_dir, size_t most = SIZE_MAX);
// OK when runs can be looked for there: RUNS_DIR_MISSING (not found) or RUNS_DIR_UNREADABLE, with the directory.
absl::Status CheckRunsDir(const std::string& runs_dir);
// A run id, a unique prefix of one, "last", or a path to a run.db or its directory; returns the path of the run.db.
// RUN_UNKNOWN names the ids that are near, RUN_AMBIGUOUS those a prefix fits.
absl::StatusOr<std::string> ResolveRun(const std::string& runs_dir, const std::string& name);

// Bytes a plan will need in the store at most at once, raw reports of the largest step included;
// printed by `muster plan` and checked before each step.
uint64_t EstimateStoreBytes(const Plan& plan);
// STORE_FULL when `dir`'s file system has less than `need` plus 64 MiB free.
absl::Status CheckSpace(const std::string& dir, uint64_t need);

}  // namespace muster
