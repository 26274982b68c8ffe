#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <deque>

#include "common/base/status.h"
#include "controller/store/lock_file.h"
#include "controller/store/record_codec.h"
#include "controller/store/run_store.h"
#include "controller/store/schema.h"
#include "controller/store/sqlite.h"

namespace muster {
namespace {

absl::Status MakeDirs(const std::string& path) {
  for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string part = path.substr(0, slash);
    // Runs name hosts and devices: they are their owner's.
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      const int err = errno;
      ErrorInfo info = GetErrorInfo(
          ErrnoError(err, "cannot create the folder of the run", part, "Choose another place with --runs."));
      info.code = err == ENOSPC || err == EDQUOT ? "STORE_FULL" : "STORE_FAILED";
      return MakeError(absl::StatusCode::kInternal, info);
    }
    if (slash == std::string::npos) return absl::OkStatus();
  }
}

class SqliteRunWriter final : public RunWriter {
 public:
  SqliteRunWriter(LockFile lock, std::unique_ptr<Database> db, const StoreOptions& options)
      : lock_(std::move(lock)), db_(std::move(db)), options_(options) {
    if (options_.clock == nullptr) options_.clock = &SteadyClock::Get();
  }

  std::string path() const override { return db_->path(); }

  absl::Status WriteHeader(const RunHeader& header) {
    MUSTER_ASSIGN_OR_RETURN(Statement insert,
                            db_->Prepare("INSERT INTO run (one, id, campaign_name, build, started, campaign_text) "
                                         "VALUES (1, ?1, ?2, ?3, ?4, ?5)"));
    insert.BindText(1, header.id).BindText(2, header.campaign_name).BindText(3, header.build);
    insert.Bind(4, header.started_wall_micros).BindText(5, header.campaign_text);
    return insert.Run();
  }

  absl::Status WritePlan(const Plan& plan) override {
    const std::string record = EncodePlan(plan);
    return Write(record.size(), [&]() -> absl::Status {
      MUSTER_ASSIGN_OR_RETURN(Statement insert, db_->Prepare("INSERT OR REPLACE INTO plan VALUES (1, ?1, ?2)"));
      return insert.Bind(1, static_cast<int64_t>(plan.steps.size())).BindBlob(2, record).Run();
    });
  }

  absl::Status WriteAgent(const RunAgent& agent) override {
    const std::string record = EncodeAgent(agent);
    return Write(record.size(), [&]() -> absl::Status {
      MUSTER_ASSIGN_OR_RETURN(Statement insert, db_->Prepare("INSERT OR REPLACE INTO agents VALUES (?1, ?2)"));
      return insert.BindText(1, agent.id).BindBlob(2, record).Run();
    });
  }

  absl::Status CommitReports(const std::vector<RawReport>& reports) override {
    uint64_t bytes = 0;
    for (const RawReport& report : reports) bytes += report.bytes.size();
    return Write(bytes, [&]() -> absl::Status {
      MUSTER_ASSIGN_OR_RETURN(Statement insert,
                              db_->Prepare("INSERT OR IGNORE INTO raw VALUES (?1, ?2, ?3, ?4, ?5, ?6)"));
      for (const RawReport& report : reports) {
        insert.BindText(1, report.agent).Bind(2, static_cast<int64_t>(report.sequence)).Bind(3, report.key.step);
        insert.Bind(4, static_cast<int64_t>(report.key.phase)).Bind(5, report.key.attempt).BindBlob(6, report.bytes);
        MUSTER_RETURN_IF_ERROR(insert.Run());
      }
      return absl::OkStatus();
    });
  }

  absl::Status WriteInterval(const PhaseKey& key, const FleetInterval& interval) override {
    const IntervalBlobs blobs = EncodeInterval(interval);
    const Nanos now = options_.clock->Now();
    size_t drop = 0;
    uint64_t kept = counts_bytes_ + blobs.counts.size();
    MUSTER_RETURN_IF_ERROR(
        Write(blobs.fleet.size() + blobs.moments.size() + blobs.counts.size(), [&]() -> absl::Status {
          MUSTER_ASSIGN_OR_RETURN(Statement insert,
                                  db_->Prepare("INSERT OR REPLACE INTO intervals VALUES (?1, ?2, ?3, ?4, ?5)"));
          insert.Bind(1, key.step).Bind(2, key.attempt).Bind(3, interval.interval);
          MUSTER_RETURN_IF_ERROR(insert.BindBlob(4, blobs.fleet).BindBlob(5, blobs.moments).Run());
          MUSTER_ASSIGN_OR_RETURN(Statement counts,
                                  db_->Prepare("INSERT OR REPLACE INTO interval_counts VALUES (?1, ?2, ?3, ?4)"));
          counts.Bind(1, key.step).Bind(2, key.attempt).Bind(3, interval.interval).BindBlob(4, blobs.counts);
          MUSTER_RETURN_IF_ERROR(counts.Run());
          MUSTER_ASSIGN_OR_RETURN(Statement remove,
                                  db_->Prepare("DELETE FROM interval_counts WHERE step=?1 AND attempt=?2 AND k=?3"));
          while (drop < counts_.size() &&
                 (kept > options_.retention_bytes || now - counts_[drop].written > options_.retention_age)) {
            const Counts& oldest = counts_[drop++];
            kept -= oldest.size;
            MUSTER_RETURN_IF_ERROR(remove.Bind(1, oldest.step).Bind(2, oldest.attempt).Bind(3, oldest.k).Run());
          }
          return absl::OkStatus();
        }));
    counts_.erase(counts_.begin(), counts_.begin() + static_cast<std::ptrdiff_t>(drop));
    counts_.push_back({key.step, key.attempt, interval.interval, blobs.counts.size(), now});
    counts_bytes_ = kept;
    return absl::OkStatus();
  }

  absl::Status SealStep(const PhaseKey& measure, const StepResult& result) override {
    const std::string record = EncodeResult(result);
    std::vector<std::string> groups;
    uint64_t bytes = record.size();
    for (const GroupFigures& group : result.figures.initiators) bytes += groups.emplace_back(EncodeGroup(group)).size();
    return WriteFull(bytes, [&]() -> absl::Status {
      MUSTER_ASSIGN_OR_RETURN(Statement insert,
                              db_->Prepare("INSERT OR REPLACE INTO results VALUES (?1, ?2, ?3, ?4, ?5)"));
      insert.Bind(1, measure.step).Bind(2, measure.attempt).BindText(3, result.step.name);
      MUSTER_RETURN_IF_ERROR(insert.BindText(4, StepOutcomeName(result.outcome)).BindBlob(5, record).Run());
      MUSTER_ASSIGN_OR_RETURN(Statement clear, db_->Prepare("DELETE FROM groups WHERE step=?1 AND attempt=?2"));
      MUSTER_RETURN_IF_ERROR(clear.Bind(1, measure.step).Bind(2, measure.attempt).Run());
      MUSTER_ASSIGN_OR_RETURN(Statement group, db_->Prepare("INSERT INTO groups VALUES (?1, ?2, ?3, ?4)"));
      for (size_t i = 0; i < groups.size(); ++i) {
        group.Bind(1, measure.step).Bind(2, measure.attempt).Bind(3, static_cast<int64_t>(i)).BindBlob(4, groups[i]);
        MUSTER_RETURN_IF_ERROR(group.Run());
      }
      return DropRaw(measure);
    });
  }

  absl::Status SealPhase(const PhaseKey& key) override {
    return WriteFull(0, [&] { return DropRaw(key); });
  }

  absl::Status WriteEvent(int64_t wall_micros, const std::string& text) override {
    return Write(text.size(), [&]() -> absl::Status {
      MUSTER_ASSIGN_OR_RETURN(Statement insert, db_->Prepare("INSERT INTO events (wall, text) VALUES (?1, ?2)"));
      return insert.Bind(1, wall_micros).BindText(2, text).Run();
    });
  }

  absl::Status Finish(const std::string& outcome, const std::string& message, int64_t wall_micros) override {
    MUSTER_RETURN_IF_ERROR(WriteFull(message.size(), [&]() -> absl::Status {
      MUSTER_ASSIGN_OR_RETURN(Statement update, db_->Prepare("UPDATE run SET outcome=?1, message=?2, finished=?3"));
      return update.BindText(1, outcome).BindText(2, message).Bind(3, wall_micros).Run();
    }));
    // Pages of deleted reports go back to the file system, then the log into the file.
    MUSTER_RETURN_IF_ERROR(db_->Exec("PRAGMA incremental_vacuum"));
    MUSTER_RETURN_IF_ERROR(db_->Checkpoint());
    // A reader that is attached right now keeps the (empty) log alive; the file is whole without it all the same.
    db_->Query("PRAGMA journal_mode=DELETE").IgnoreError();
    return absl::OkStatus();
  }

 private:
  struct Counts {
    uint32_t step, attempt;
    int64_t k;
    uint64_t size;
    Nanos written;
  };

  template <typename Body>
  absl::Status Write(uint64_t bytes, Body body) {
    absl::Status status = WriteOnce(body);
    if (GetErrorInfo(status).code != "STORE_FULL") return status;
    ErrorInfo info = GetErrorInfo(status);
    info.message += fmt::format("; {} bytes were to be written", bytes);
    return MakeError(status.code(), std::move(info));
  }

  template <typename Body>
  absl::Status WriteOnce(Body& body) {
    MUSTER_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(*db_));
    MUSTER_RETURN_IF_ERROR(body());
    return transaction.Commit();
  }

  // The end of a phase is on the disk itself, not only in the system's cache.
  template <typename Body>
  absl::Status WriteFull(uint64_t bytes, Body body) {
    MUSTER_RETURN_IF_ERROR(db_->Exec("PRAGMA synchronous=FULL"));
    absl::Status status = Write(bytes, body);
    absl::Status back = db_->Exec("PRAGMA synchronous=NORMAL");
    return status.ok() ? back : status;
  }

  absl::Status DropRaw(const PhaseKey& key) {
    MUSTER_ASSIGN_OR_RETURN(Statement sealed, db_->Prepare("INSERT OR REPLACE INTO sealed VALUES (?1, ?2, ?3)"));
    sealed.Bind(1, key.step).Bind(2, static_cast<int64_t>(key.phase)).Bind(3, key.attempt);
    MUSTER_RETURN_IF_ERROR(sealed.Run());
    if (options_.keep_raw) return absl::OkStatus();
    MUSTER_ASSIGN_OR_RETURN(Statement drop, db_->Prepare("DELETE FROM raw WHERE step=?1 AND phase=?2 AND attempt=?3"));
    return drop.Bind(1, key.step).Bind(2, static_cast<int64_t>(key.phase)).Bind(3, key.attempt).Run();
  }

  LockFile lock_;  // ends last
  std::unique_ptr<Database> db_;
  StoreOptions options_;
  std::deque<Counts> counts_;  // rows of interval_counts, oldest first
  uint64_t counts_bytes_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RunWriter>> RunWriter::Create(const std::string& runs_dir, const RunHeader& header,
                                                             const StoreOptions& options) {
  if (header.id.empty() || header.id.front() == '.' || header.id.find('/') != std::string::npos) {
    return MakeError(absl::StatusCode::kInvalidArgument,
                     {.code = "STORE_FAILED", .place = runs_dir, .message = "the run id is no name of a folder"});
  }
  const std::string dir = runs_dir + "/" + header.id;
  MUSTER_RETURN_IF_ERROR(MakeDirs(dir));
  MUSTER_ASSIGN_OR_RETURN(LockFile lock, LockFile::Acquire(dir + "/lock"));
  MUSTER_ASSIGN_OR_RETURN(auto db, Database::Open(dir + "/run.db", Database::Mode::kCreate));
  MUSTER_RETURN_IF_ERROR(CreateSchema(*db));
  auto writer = std::make_unique<SqliteRunWriter>(std::move(lock), std::move(db), options);
  MUSTER_RETURN_IF_ERROR(writer->WriteHeader(header));
  return writer;
}

}  // namespace muster
