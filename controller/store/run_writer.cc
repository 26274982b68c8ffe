#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <deque>

#include "common/base/status.h"
#include "controller/store/lock_file.h"
#include "controller/store/record_codec.h"
#include "controller/store/reserve_file.h"
#include "controller/store/run_store.h"
#include "controller/store/schema.h"
#include "controller/store/sqlite.h"
#include "controller/store/tally.h"

namespace muster {
namespace {

// The record of the run and what a transaction takes beside it: pages of 8 KiB in the log, its shared memory.
constexpr uint64_t kReserve = 256 << 10;

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
  SqliteRunWriter(LockFile lock, ReserveFile reserve, std::unique_ptr<Database> db, const StoreOptions& options)
      : lock_(std::move(lock)), reserve_(std::move(reserve)), db_(std::move(db)), options_(options) {
    if (options_.clock == nullptr) options_.clock = &SteadyClock::Get();
  }

  std::string path() const override { return db_->path(); }

  absl::Status WriteHeader(const RunHeader& header) {
    return Write(header.campaign_text.size(), [&](TallyChanges& tally) -> absl::Status {
      MUSTER_ASSIGN_OR_RETURN(Statement insert,
                              db_->Prepare("INSERT INTO run (one, id, campaign_name, build, started, campaign_text) "
                                           "VALUES (1, ?1, ?2, ?3, ?4, ?5) RETURNING *"));
      insert.BindText(1, header.id).BindText(2, header.campaign_name).BindText(3, header.build);
      insert.Bind(4, header.started_wall_micros).BindText(5, header.campaign_text);
      return tally.Put({"run"}, insert);
    });
  }

  absl::Status WritePlan(const Plan& plan) override {
    const std::string record = EncodePlan(plan);
    return Write(record.size(), [&](TallyChanges& tally) -> absl::Status {
      MUSTER_ASSIGN_OR_RETURN(Statement clear, db_->Prepare("DELETE FROM plan RETURNING *"));
      MUSTER_RETURN_IF_ERROR(tally.Take({"plan"}, clear));
      MUSTER_ASSIGN_OR_RETURN(Statement insert, db_->Prepare("INSERT INTO plan VALUES (1, ?1, ?2) RETURNING *"));
      insert.Bind(1, static_cast<int64_t>(plan.steps.size())).BindBlob(2, record);
      return tally.Put({"plan"}, insert);
    });
  }

  absl::Status WriteAgent(const RunAgent& agent) override {
    const std::string record = EncodeAgent(agent);
    return Write(record.size(), [&](TallyChanges& tally) -> absl::Status {
      MUSTER_ASSIGN_OR_RETURN(Statement clear, db_->Prepare("DELETE FROM agents WHERE id=?1 RETURNING *"));
      MUSTER_RETURN_IF_ERROR(tally.Take({"agents"}, clear.BindText(1, agent.id)));
      MUSTER_ASSIGN_OR_RETURN(Statement insert, db_->Prepare("INSERT INTO agents VALUES (?1, ?2) RETURNING *"));
      return tally.Put({"agents"}, insert.BindText(1, agent.id).BindBlob(2, record));
    });
  }

  absl::Status CommitReports(const std::vector<RawReport>& reports) override {
    uint64_t bytes = 0;
    for (const RawReport& report : reports) bytes += report.bytes.size();
    return Write(bytes, [&](TallyChanges& tally) -> absl::Status {
      MUSTER_ASSIGN_OR_RETURN(
          Statement insert, db_->Prepare("INSERT OR IGNORE INTO raw VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) RETURNING *"));
      const int64_t wall = WallMicros();
      for (const RawReport& report : reports) {
        insert.BindText(1, report.agent).Bind(2, static_cast<int64_t>(report.sequence)).Bind(3, report.key.step);
        insert.Bind(4, static_cast<int64_t>(report.key.phase)).Bind(5, report.key.attempt).Bind(6, wall);
        MUSTER_RETURN_IF_ERROR(tally.Put(RawKey(report.key), insert.BindBlob(7, report.bytes)));
      }
      return absl::OkStatus();
    });
  }

  absl::Status WriteInterval(const PhaseKey& key, const FleetInterval& interval) override {
    const IntervalBlobs blobs = EncodeInterval(interval);
    const Nanos now = options_.clock->Now();
    size_t drop = 0;
    uint64_t kept = counts_bytes_ + blobs.counts.size();
    const uint64_t bytes = blobs.fleet.size() + blobs.moments.size() + blobs.counts.size();
    MUSTER_RETURN_IF_ERROR(Write(bytes, [&](TallyChanges& tally) -> absl::Status {
      MUSTER_ASSIGN_OR_RETURN(Statement insert,
                              db_->Prepare("INSERT INTO intervals VALUES (?1, ?2, ?3, ?4, ?5) RETURNING *"));
      insert.Bind(1, key.step).Bind(2, key.attempt).Bind(3, interval.interval);
      insert.BindBlob(4, blobs.fleet).BindBlob(5, blobs.moments);
      MUSTER_RETURN_IF_ERROR(tally.Put({"intervals", key.step, key.attempt}, insert));
      MUSTER_ASSIGN_OR_RETURN(Statement counts,
                              db_->Prepare("INSERT INTO interval_counts VALUES (?1, ?2, ?3, ?4) RETURNING *"));
      counts.Bind(1, key.step).Bind(2, key.attempt).Bind(3, interval.interval).BindBlob(4, blobs.counts);
      MUSTER_RETURN_IF_ERROR(tally.Put({"interval_counts", key.step, key.attempt}, counts));
      MUSTER_ASSIGN_OR_RETURN(
          Statement remove,
          db_->Prepare("DELETE FROM interval_counts WHERE step=?1 AND attempt=?2 AND k=?3 RETURNING *"));
      while (drop < counts_.size() &&
             (kept > options_.retention_bytes || now - counts_[drop].written > options_.retention_age)) {
        const Counts& oldest = counts_[drop++];
        kept -= oldest.size;
        remove.Bind(1, oldest.step).Bind(2, oldest.attempt).Bind(3, oldest.k);
        MUSTER_RETURN_IF_ERROR(tally.Take({"interval_counts", oldest.step, oldest.attempt}, remove));
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
    return WriteFull(bytes, [&](TallyChanges& tally) -> absl::Status {
      const TallyKey of_step{"groups", measure.step, measure.attempt};
      MUSTER_RETURN_IF_ERROR(Delete("results", "step=?1 AND attempt=?2", measure, {"results"}, tally));
      MUSTER_RETURN_IF_ERROR(Delete("groups", "step=?1 AND attempt=?2", measure, of_step, tally));
      MUSTER_ASSIGN_OR_RETURN(Statement insert,
                              db_->Prepare("INSERT INTO results VALUES (?1, ?2, ?3, ?4, ?5) RETURNING *"));
      insert.Bind(1, measure.step).Bind(2, measure.attempt).BindText(3, result.step.name);
      insert.BindText(4, StepOutcomeName(result.outcome)).BindBlob(5, record);
      MUSTER_RETURN_IF_ERROR(tally.Put({"results"}, insert));
      MUSTER_ASSIGN_OR_RETURN(Statement group, db_->Prepare("INSERT INTO groups VALUES (?1, ?2, ?3, ?4) RETURNING *"));
      for (size_t i = 0; i < groups.size(); ++i) {
        group.Bind(1, measure.step).Bind(2, measure.attempt).Bind(3, static_cast<int64_t>(i)).BindBlob(4, groups[i]);
        MUSTER_RETURN_IF_ERROR(tally.Put(of_step, group));
      }
      MUSTER_RETURN_IF_ERROR(DropRaw(measure, tally));
      return options_.keep_raw ? absl::OkStatus() : DropEarlier(measure);
    });
  }

  // The run's record as of one that runs; what earlier agents were is an event.
  absl::Status Reopen() {
    return WriteFull(0, [&](TallyChanges& tally) -> absl::Status {
      MUSTER_ASSIGN_OR_RETURN(Statement before, db_->Prepare("SELECT * FROM run"));
      MUSTER_RETURN_IF_ERROR(tally.Take({"run"}, before));
      MUSTER_ASSIGN_OR_RETURN(Statement update,
                              db_->Prepare("UPDATE run SET outcome='', message='', finished=0 RETURNING *"));
      MUSTER_RETURN_IF_ERROR(tally.Put({"run"}, update));
      MUSTER_ASSIGN_OR_RETURN(Statement agents, db_->Prepare("DELETE FROM agents RETURNING *"));
      return tally.Take({"agents"}, agents);
    });
  }

  absl::Status SealPhase(const PhaseKey& key) override {
    return WriteFull(0, [&](TallyChanges& tally) { return DropRaw(key, tally); });
  }

  absl::Status WriteEvent(int64_t wall_micros, const std::string& text) override {
    return Write(text.size(), [&](TallyChanges& tally) -> absl::Status {
      MUSTER_ASSIGN_OR_RETURN(Statement insert,
                              db_->Prepare("INSERT INTO events (wall, text) VALUES (?1, ?2) RETURNING *"));
      return tally.Put({"events"}, insert.Bind(1, wall_micros).BindText(2, text));
    });
  }

  absl::Status Finish(const std::string& outcome, const std::string& message, int64_t wall_micros) override {
    auto close = [&] {
      return WriteFull(message.size(), [&](TallyChanges& tally) -> absl::Status {
        MUSTER_ASSIGN_OR_RETURN(Statement before, db_->Prepare("SELECT * FROM run"));
        MUSTER_RETURN_IF_ERROR(tally.Take({"run"}, before));
        MUSTER_ASSIGN_OR_RETURN(Statement update,
                                db_->Prepare("UPDATE run SET outcome=?1, message=?2, finished=?3 RETURNING *"));
        return tally.Put({"run"}, update.BindText(1, outcome).BindText(2, message).Bind(3, wall_micros));
      });
    };
    absl::Status closed = close();
    if (GetErrorInfo(closed).code == "STORE_FULL") {
      reserve_.Release();
      closed = close();
    }
    MUSTER_RETURN_IF_ERROR(closed);
    reserve_.Release();
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
    TallyChanges tally;
    MUSTER_RETURN_IF_ERROR(body(tally));
    MUSTER_RETURN_IF_ERROR(tally.Write(*db_));
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

  static TallyKey RawKey(const PhaseKey& key) {
    return {"raw", key.step, key.attempt, static_cast<int64_t>(key.phase)};
  }

  absl::Status Delete(const char* table, const char* where, const PhaseKey& key, const TallyKey& counted,
                      TallyChanges& tally) {
    MUSTER_ASSIGN_OR_RETURN(Statement remove,
                            db_->Prepare(fmt::format("DELETE FROM {} WHERE {} RETURNING *", table, where)));
    return tally.Take(counted, remove.Bind(1, key.step).Bind(2, key.attempt));
  }

  absl::Status DropEarlier(const PhaseKey& key) {
    for (const char* sql : {"DELETE FROM raw WHERE step=?1 AND attempt<?2",
                            "DELETE FROM tally WHERE tab='raw' AND step=?1 AND attempt<?2"}) {
      MUSTER_ASSIGN_OR_RETURN(Statement drop, db_->Prepare(sql));
      MUSTER_RETURN_IF_ERROR(drop.Bind(1, key.step).Bind(2, key.attempt).Run());
    }
    return absl::OkStatus();
  }

  absl::Status DropRaw(const PhaseKey& key, TallyChanges& tally) {
    const auto phase = static_cast<int64_t>(key.phase);
    const std::string where = fmt::format("step=?1 AND attempt=?2 AND phase={}", phase);
    MUSTER_RETURN_IF_ERROR(Delete("sealed", where.c_str(), key, {"sealed"}, tally));
    MUSTER_ASSIGN_OR_RETURN(Statement sealed, db_->Prepare("INSERT INTO sealed VALUES (?1, ?2, ?3, ?4) RETURNING *"));
    sealed.Bind(1, key.step).Bind(2, phase).Bind(3, key.attempt).Bind(4, WallMicros());
    MUSTER_RETURN_IF_ERROR(tally.Put({"sealed"}, sealed));
    if (options_.keep_raw) return absl::OkStatus();
    // The whole phase goes: nothing is left to be counted, so its rows need not be read.
    for (const char* sql : {"DELETE FROM raw WHERE step=?1 AND phase=?2 AND attempt=?3",
                            "DELETE FROM tally WHERE step=?1 AND phase=?2 AND attempt=?3"}) {
      MUSTER_ASSIGN_OR_RETURN(Statement drop, db_->Prepare(sql));
      MUSTER_RETURN_IF_ERROR(drop.Bind(1, key.step).Bind(2, phase).Bind(3, key.attempt).Run());
    }
    return absl::OkStatus();
  }

  LockFile lock_;  // ends last
  ReserveFile reserve_;
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
  MUSTER_ASSIGN_OR_RETURN(ReserveFile reserve, ReserveFile::Create(dir + "/reserve", kReserve));
  auto writer = std::make_unique<SqliteRunWriter>(std::move(lock), std::move(reserve), std::move(db), options);
  MUSTER_RETURN_IF_ERROR(writer->WriteHeader(header));
  return writer;
}

namespace {

absl::StatusOr<std::unique_ptr<SqliteRunWriter>> OpenAgain(const std::string& path, const StoreOptions& options) {
  const std::string dir = path.substr(0, path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  const std::string base = dir.empty() ? "." : dir;
  MUSTER_ASSIGN_OR_RETURN(LockFile lock, LockFile::Acquire(base + "/lock"));
  MUSTER_ASSIGN_OR_RETURN(auto db, Database::Open(path, Database::Mode::kWrite));
  MUSTER_RETURN_IF_ERROR(CheckSchema(*db));
  MUSTER_RETURN_IF_ERROR(db->Query("PRAGMA journal_mode=WAL").status());
  MUSTER_RETURN_IF_ERROR(db->Exec("PRAGMA synchronous=NORMAL"));
  MUSTER_ASSIGN_OR_RETURN(ReserveFile reserve, ReserveFile::Create(base + "/reserve", kReserve));
  return std::make_unique<SqliteRunWriter>(std::move(lock), std::move(reserve), std::move(db), options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunWriter>> RunWriter::Resume(const std::string& path, const StoreOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(auto writer, OpenAgain(path, options));
  MUSTER_RETURN_IF_ERROR(writer->Reopen());
  return writer;
}

absl::StatusOr<std::unique_ptr<RunWriter>> RunWriter::TakeUp(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<RunWriter> writer, OpenAgain(path, {}));
  return writer;
}

}  // namespace muster
