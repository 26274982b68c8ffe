#include "controller/store/schema.h"

#include <fmt/format.h>

#include "common/base/status.h"

namespace muster {
namespace {

// Records are messages of result.proto; `tally` is described in tally.h. Blobs stand last: what is searched for lies
// before them.
constexpr char kTables[] = R"sql(
CREATE TABLE run (one INTEGER PRIMARY KEY CHECK (one = 1), id TEXT NOT NULL, campaign_name TEXT NOT NULL,
  build TEXT NOT NULL, started INTEGER NOT NULL, finished INTEGER NOT NULL DEFAULT 0, outcome TEXT NOT NULL DEFAULT '',
  message TEXT NOT NULL DEFAULT '', campaign_text TEXT NOT NULL);
CREATE TABLE plan (one INTEGER PRIMARY KEY CHECK (one = 1), steps INTEGER NOT NULL, record BLOB NOT NULL);
CREATE TABLE agents (id TEXT PRIMARY KEY, record BLOB NOT NULL);
CREATE TABLE raw (agent TEXT NOT NULL, sequence INTEGER NOT NULL, step INTEGER NOT NULL, phase INTEGER NOT NULL,
  attempt INTEGER NOT NULL, wall INTEGER NOT NULL, bytes BLOB NOT NULL);
CREATE UNIQUE INDEX raw_sequence ON raw (agent, sequence, step, attempt);
CREATE TABLE intervals (step INTEGER NOT NULL, attempt INTEGER NOT NULL, k INTEGER NOT NULL, fleet BLOB NOT NULL,
  moments BLOB NOT NULL, UNIQUE (step, attempt, k));
CREATE TABLE interval_counts (step INTEGER NOT NULL, attempt INTEGER NOT NULL, k INTEGER NOT NULL,
  counts BLOB NOT NULL, UNIQUE (step, attempt, k));
CREATE TABLE results (step INTEGER NOT NULL, attempt INTEGER NOT NULL, name TEXT NOT NULL, outcome TEXT NOT NULL,
  record BLOB NOT NULL, UNIQUE (step, attempt));
CREATE TABLE groups (step INTEGER NOT NULL, attempt INTEGER NOT NULL, n INTEGER NOT NULL, record BLOB NOT NULL,
  UNIQUE (step, attempt, n));
CREATE TABLE sealed (step INTEGER NOT NULL, phase INTEGER NOT NULL, attempt INTEGER NOT NULL,
  wall INTEGER NOT NULL, UNIQUE (step, phase, attempt));
CREATE TABLE events (n INTEGER PRIMARY KEY, wall INTEGER NOT NULL, text TEXT NOT NULL);
CREATE TABLE tally (step INTEGER NOT NULL, attempt INTEGER NOT NULL, phase INTEGER NOT NULL, tab TEXT NOT NULL,
  n INTEGER NOT NULL, digest INTEGER NOT NULL, UNIQUE (step, attempt, phase, tab));
)sql";

}  // namespace

absl::Status CreateSchema(Database& db) {
  // Page size and vacuum mode only take before the first table.
  MUSTER_RETURN_IF_ERROR(db.Exec("PRAGMA page_size=8192; PRAGMA auto_vacuum=INCREMENTAL;"));
  MUSTER_ASSIGN_OR_RETURN(const std::string mode, db.Query("PRAGMA journal_mode=WAL"));
  if (mode != "wal") {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     {.code = "STORE_FAILED",
                      .place = db.path(),
                      .message = fmt::format("the file system does not carry a write-ahead log (mode {})", mode),
                      .next = "Choose a local file system with --runs."});
  }
  MUSTER_RETURN_IF_ERROR(db.Exec("PRAGMA synchronous=NORMAL"));
  MUSTER_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(db));
  MUSTER_RETURN_IF_ERROR(db.Exec(kTables));
  const std::string stamp =
      fmt::format("PRAGMA application_id={}; PRAGMA user_version={};", kRunFileApplication, kRunFileVersion);
  MUSTER_RETURN_IF_ERROR(db.Exec(stamp.c_str()));
  return transaction.Commit();
}

absl::Status CheckSchema(Database& db) {
  MUSTER_ASSIGN_OR_RETURN(const std::string application, db.Query("PRAGMA application_id"));
  if (application != std::to_string(kRunFileApplication)) {
    return MakeError(
        absl::StatusCode::kDataLoss,
        {.code = "RUN_DAMAGED", .place = db.path(), .message = "the file is a database, but not of a run", .next = ""});
  }
  MUSTER_ASSIGN_OR_RETURN(const std::string version, db.Query("PRAGMA user_version"));
  if (version != std::to_string(kRunFileVersion)) {
    const bool older = version.size() == 1 && version < std::to_string(kRunFileVersion);
    return MakeError(
        absl::StatusCode::kFailedPrecondition,
        {.code = older ? "RUN_OLDER" : "RUN_NEWER",
         .place = db.path(),
         .message = fmt::format("the run file has version {}, this release reads version {}", version, kRunFileVersion),
         .next = "Read it with the release that wrote it."});
  }
  return absl::OkStatus();
}

}  // namespace muster
