#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/status.h"
#include "controller/store/lock_file.h"
#include "controller/store/record_codec.h"
#include "controller/store/run_store.h"
#include "controller/store/schema.h"
#include "controller/store/sqlite.h"
#include "controller/store/tally.h"
#include "controller/store/unsealed.h"

namespace muster {
namespace {

class SqliteRunReader final : public RunReader {
 public:
  explicit SqliteRunReader(std::unique_ptr<Database> db) : db_(std::move(db)) {}

  absl::StatusOr<RunSummary> Summary() override {
    return Snapshot<RunSummary>([&](RunSummary& out) -> absl::Status {
      MUSTER_RETURN_IF_ERROR(CheckRun());
      MUSTER_ASSIGN_OR_RETURN(Statement run,
                              db_->Prepare("SELECT id, campaign_name, outcome, message, started, finished FROM run"));
      MUSTER_ASSIGN_OR_RETURN(const bool there, run.Step());
      if (!there) return DamagedRecord("the run's own record is not there");
      out = {.id = run.Text(0),
             .path = db_->path(),
             .campaign_name = run.Text(1),
             .outcome = run.Text(2),
             .message = run.Text(3),
             .started_wall_micros = run.Int(4),
             .finished_wall_micros = run.Int(5)};
      if (out.outcome.empty()) out.outcome = LockFile::Held(LockPath()) ? "running" : "interrupted";
      MUSTER_ASSIGN_OR_RETURN(Statement plan, db_->Prepare("SELECT steps FROM plan"));
      MUSTER_ASSIGN_OR_RETURN(const bool planned, plan.Step());
      if (planned) out.steps = static_cast<uint32_t>(plan.Int(0));
      MUSTER_ASSIGN_OR_RETURN(Statement results,
                              db_->Prepare(Latest("SELECT outcome, step, attempt, name FROM results r")));
      while (true) {
        MUSTER_ASSIGN_OR_RETURN(const bool row, results.Step());
        if (!row) break;
        MUSTER_RETURN_IF_ERROR(CheckStep(results.Int(1), results.Int(2), results.Text(3), TallyDepth::kCount));
        const std::string outcome = results.Text(0);
        out.valid += outcome == StepOutcomeName(StepOutcome::kValid) ? 1 : 0;
        out.invalid += outcome == StepOutcomeName(StepOutcome::kInvalid) ? 1 : 0;
      }
      return out.outcome == "running" ? absl::OkStatus() : AddUnsealed(out);
    });
  }

  absl::StatusOr<RunHeader> Header() override {
    return Snapshot<RunHeader>([&](RunHeader& out) -> absl::Status {
      MUSTER_ASSIGN_OR_RETURN(Statement run,
                              db_->Prepare("SELECT id, campaign_name, campaign_text, build, started FROM run"));
      MUSTER_ASSIGN_OR_RETURN(const bool there, run.Step());
      if (!there) return DamagedRecord("the run's own record is not there");
      out = {.id = run.Text(0),
             .campaign_name = run.Text(1),
             .campaign_text = run.Text(2),
             .build = run.Text(3),
             .started_wall_micros = run.Int(4)};
      return absl::OkStatus();
    });
  }

  absl::StatusOr<std::vector<RunAgent>> Agents() override {
    return Rows<RunAgent>("SELECT record FROM agents ORDER BY id",
                          [](Statement& row) { return DecodeAgent(row.Blob(0)); });
  }

  absl::StatusOr<std::vector<StepResult>> Results() override {
    return Snapshot<std::vector<StepResult>>([&](std::vector<StepResult>& out) -> absl::Status {
      MUSTER_RETURN_IF_ERROR(CheckRun());
      MUSTER_ASSIGN_OR_RETURN(
          Statement results,
          db_->Prepare(Latest("SELECT step, attempt, record, name FROM results r") + " ORDER BY step"));
      MUSTER_ASSIGN_OR_RETURN(Statement groups,
                              db_->Prepare("SELECT record FROM groups WHERE step=?1 AND attempt=?2 ORDER BY n"));
      while (true) {
        MUSTER_ASSIGN_OR_RETURN(const bool row, results.Step());
        if (!row) break;
        MUSTER_RETURN_IF_ERROR(CheckStep(results.Int(0), results.Int(1), results.Text(3), TallyDepth::kRows));
        MUSTER_ASSIGN_OR_RETURN(StepResult result, DecodeResult(results.Blob(2)));
        groups.Bind(1, results.Int(0)).Bind(2, results.Int(1));
        while (true) {
          MUSTER_ASSIGN_OR_RETURN(const bool more, groups.Step());
          if (!more) break;
          MUSTER_ASSIGN_OR_RETURN(GroupFigures group, DecodeGroup(groups.Blob(0)));
          result.figures.initiators.push_back(std::move(group));
        }
        groups.Reset();
        out.push_back(std::move(result));
      }
      MUSTER_ASSIGN_OR_RETURN(const auto unsealed, Interrupted());
      MUSTER_RETURN_IF_ERROR(CheckReports());
      for (const UnsealedStep& step : unsealed) {
        MUSTER_ASSIGN_OR_RETURN(StepResult result, MergeUnsealed(*db_, step, nullptr));
        out.push_back(std::move(result));
      }
      std::stable_sort(out.begin(), out.end(),
                       [](const StepResult& a, const StepResult& b) { return a.step.index < b.step.index; });
      return absl::OkStatus();
    });
  }

  absl::StatusOr<RunIntervals> Intervals(uint32_t step) override {
    RunIntervals out;
    out.step = step;
    MUSTER_RETURN_IF_ERROR(VisitIntervals(step, [&](const FleetInterval& interval) {
      out.intervals.push_back(interval);
      return absl::OkStatus();
    }));
    return out;
  }

  absl::Status VisitIntervals(uint32_t step, const std::function<absl::Status(const FleetInterval&)>& visit) override {
    struct Nothing {};
    return Snapshot<Nothing>([&](Nothing&) -> absl::Status {
             MUSTER_ASSIGN_OR_RETURN(const auto unsealed, Interrupted());
             for (const UnsealedStep& interrupted : unsealed) {
               if (interrupted.step == step) return MergeUnsealed(*db_, interrupted, visit).status();
             }
             MUSTER_ASSIGN_OR_RETURN(Statement sealed,
                                     db_->Prepare(Latest("SELECT attempt, name FROM results r") + " AND step=?1"));
             MUSTER_ASSIGN_OR_RETURN(const bool has_result, sealed.Bind(1, step).Step());
             if (has_result) {
               MUSTER_RETURN_IF_ERROR(CheckStep(step, sealed.Int(0), sealed.Text(1), TallyDepth::kRows));
             }
             // The attempt that has a result, or the one that is running.
             MUSTER_ASSIGN_OR_RETURN(
                 Statement rows,
                 db_->Prepare("SELECT i.fleet, i.moments, c.counts FROM intervals i "
                              "LEFT JOIN interval_counts c ON c.step=i.step AND c.attempt=i.attempt AND c.k=i.k "
                              "WHERE i.step=?1 AND i.attempt=coalesce((SELECT max(attempt) FROM results WHERE "
                              "step=?1), (SELECT max(attempt) FROM intervals WHERE step=?1)) ORDER BY i.k"));
             rows.Bind(1, step);
             while (true) {
               MUSTER_ASSIGN_OR_RETURN(const bool row, rows.Step());
               if (!row) return absl::OkStatus();
               MUSTER_ASSIGN_OR_RETURN(const FleetInterval interval,
                                       DecodeInterval(rows.Blob(0), rows.Blob(1), rows.Blob(2)));
               MUSTER_RETURN_IF_ERROR(visit(interval));
             }
           })
        .status();
  }

  absl::StatusOr<std::vector<std::pair<int64_t, std::string>>> Events() override {
    using Event = std::pair<int64_t, std::string>;
    return Rows<Event>("SELECT wall, text FROM events ORDER BY n",
                       [](Statement& row) -> absl::StatusOr<Event> { return Event(row.Int(0), row.Text(1)); });
  }

  absl::StatusOr<std::vector<RawReport>> RawReports() override {
    MUSTER_ASSIGN_OR_RETURN(const std::string run, db_->Query("SELECT id FROM run"));
    return Rows<RawReport>("SELECT agent, sequence, step, phase, attempt, bytes FROM raw ORDER BY agent, sequence",
                           [&](Statement& row) -> absl::StatusOr<RawReport> {
                             if (row.Int(3) < 0 || row.Int(3) > static_cast<int64_t>(PhaseKind::kDetach))
                               return DamagedRecord("a report");
                             return RawReport{.agent = row.Text(0),
                                              .sequence = static_cast<uint64_t>(row.Int(1)),
                                              .key = {.run = run,
                                                      .step = static_cast<uint32_t>(row.Int(2)),
                                                      .phase = static_cast<PhaseKind>(row.Int(3)),
                                                      .attempt = static_cast<uint32_t>(row.Int(4))},
                                              .bytes = std::string(row.Blob(5))};
                           });
  }

 private:
  static std::string Latest(std::string_view select) {
    return fmt::format("{} WHERE attempt=(SELECT max(attempt) FROM results WHERE step=r.step)", select);
  }

  // The records of the run itself.
  absl::Status CheckRun() {
    for (const char* table : {"run", "plan", "agents", "events", "results", "sealed"}) {
      MUSTER_RETURN_IF_ERROR(CheckTally(*db_, {table}, TallyDepth::kRows, "the run"));
    }
    return absl::OkStatus();
  }

  // All that is kept of a sealed step. Once a reader: what is sealed does not change but for retention.
  absl::Status CheckStep(int64_t step, int64_t attempt, const std::string& name, TallyDepth depth) {
    const std::pair<int64_t, int64_t> key(step, attempt);
    if (depth == TallyDepth::kRows && checked_.count(key) != 0) depth = TallyDepth::kCount;
    const std::string what = fmt::format("step {} ({})", step + 1, name);
    for (const char* table : {"groups", "intervals", "interval_counts"}) {
      MUSTER_RETURN_IF_ERROR(CheckTally(*db_, {table, step, attempt}, depth, what));
    }
    if (depth == TallyDepth::kCount) return absl::OkStatus();
    for (const PhaseKind phase : {PhaseKind::kFill, PhaseKind::kMeasure}) {
      const TallyKey raw{"raw", step, attempt, static_cast<int64_t>(phase)};
      MUSTER_RETURN_IF_ERROR(CheckTally(*db_, raw, depth, what));
    }
    checked_.insert(key);
    return absl::OkStatus();
  }

  // Every committed report is counted in a tally: without one, an unsealed step would be overlooked.
  absl::Status CheckReports() {
    MUSTER_ASSIGN_OR_RETURN(
        Statement uncounted,
        db_->Prepare("SELECT step, attempt, phase FROM raw r WHERE NOT EXISTS (SELECT 1 FROM tally t WHERE "
                     "t.tab='raw' AND t.step=r.step AND t.attempt=r.attempt AND t.phase=r.phase)"));
    MUSTER_ASSIGN_OR_RETURN(const bool row, uncounted.Step());
    if (!row) return absl::OkStatus();
    return CheckTally(*db_, {"raw", uncounted.Int(0), uncounted.Int(1), uncounted.Int(2)}, TallyDepth::kCount,
                      fmt::format("step {}", uncounted.Int(0) + 1));
  }

  // Steps to be shown as interrupted: none while somebody is writing the file.
  absl::StatusOr<std::vector<UnsealedStep>> Interrupted() {
    MUSTER_ASSIGN_OR_RETURN(const std::string outcome, db_->Query("SELECT outcome FROM run"));
    if (outcome.empty() && LockFile::Held(LockPath())) return std::vector<UnsealedStep>();
    return UnsealedSteps(*db_);
  }

  absl::Status AddUnsealed(RunSummary& out) {
    MUSTER_ASSIGN_OR_RETURN(const auto unsealed, UnsealedSteps(*db_));
    MUSTER_ASSIGN_OR_RETURN(const Plan plan, ReadPlanSteps(*db_));
    auto name_of = [&](int64_t index) {
      for (const Step& step : plan.steps) {
        if (step.index == index && !step.name.empty()) return step.name;
      }
      return fmt::format("step {}", index + 1);
    };
    for (const UnsealedStep& step : unsealed) out.unsealed.push_back(name_of(step.step));
    // Rows are numbered as they are committed.
    for (const char* sql : {"SELECT wall, step FROM raw ORDER BY rowid DESC LIMIT 1",
                            "SELECT wall, step FROM sealed ORDER BY rowid DESC LIMIT 1"}) {
      MUSTER_ASSIGN_OR_RETURN(Statement newest, db_->Prepare(sql));
      MUSTER_ASSIGN_OR_RETURN(const bool row, newest.Step());
      if (!row || newest.Int(0) <= out.committed_wall_micros) continue;
      out.committed_wall_micros = newest.Int(0);
      out.committed_step = name_of(newest.Int(1));
    }
    return absl::OkStatus();
  }

  std::string LockPath() const { return db_->path().substr(0, db_->path().rfind('/') + 1) + "lock"; }

  // All reads of `body` see one state of the file.
  template <typename Out, typename Body>
  absl::StatusOr<Out> Snapshot(Body body) {
    Out out;
    MUSTER_RETURN_IF_ERROR(db_->Exec("BEGIN"));
    absl::Status status = body(out);
    db_->Exec("COMMIT").IgnoreError();  // nothing was written
    if (!status.ok()) return GetErrorInfo(status).place.empty() ? AtPlace(status, db_->path()) : status;
    return out;
  }

  template <typename Row, typename Decode>
  absl::StatusOr<std::vector<Row>> Rows(const char* sql, Decode decode) {
    return Snapshot<std::vector<Row>>([&](std::vector<Row>& out) -> absl::Status {
      MUSTER_ASSIGN_OR_RETURN(Statement rows, db_->Prepare(sql));
      while (true) {
        MUSTER_ASSIGN_OR_RETURN(const bool row, rows.Step());
        if (!row) return absl::OkStatus();
        MUSTER_ASSIGN_OR_RETURN(Row decoded, decode(rows));
        out.push_back(std::move(decoded));
      }
    });
  }

  std::unique_ptr<Database> db_;
  std::set<std::pair<int64_t, int64_t>> checked_;  // step, attempt
};

}  // namespace

absl::StatusOr<std::unique_ptr<RunReader>> RunReader::Open(const std::string& path) {
  struct stat st {};
  const bool dir = stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
  std::string file = dir ? path + "/run.db" : path;
  if (file.find('/') == std::string::npos) file = "./" + file;
  MUSTER_ASSIGN_OR_RETURN(auto db, Database::Open(file, Database::Mode::kRead));
  MUSTER_RETURN_IF_ERROR(CheckSchema(*db));
  return std::make_unique<SqliteRunReader>(std::move(db));
}

}  // namespace muster
