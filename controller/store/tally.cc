#include "controller/store/tally.h"

#include <fmt/format.h>

#include "common/base/status.h"

namespace muster {
namespace {

absl::Status Damaged(const TallyKey& key, std::string_view what, std::string_view how) {
  return MakeError(
      absl::StatusCode::kDataLoss,
      {.code = "RUN_DAMAGED",
       .message = fmt::format("{}: table {}: {}", what, key.table, how),
       .next = "The file was changed after it was written, or its disk is broken; no figure of it is shown."});
}

std::string Where(const TallyKey& key) {
  if (key.step == kWholeRun) return "";
  return key.phase < 0 ? " WHERE step=?1 AND attempt=?2" : " WHERE step=?1 AND attempt=?2 AND phase=?3";
}

absl::StatusOr<Statement> Select(Database& db, std::string_view columns, const TallyKey& key) {
  MUSTER_ASSIGN_OR_RETURN(Statement select,
                          db.Prepare(fmt::format("SELECT {} FROM {}{}", columns, key.table, Where(key))));
  if (key.step != kWholeRun) select.Bind(1, key.step).Bind(2, key.attempt);
  if (key.phase >= 0) select.Bind(3, key.phase);
  return select;
}

}  // namespace

absl::Status TallyChanges::Add(const TallyKey& key, Statement& rows, int sign) {
  Change& change = changes_[key];
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const bool row, rows.Step());
    if (!row) break;
    change.rows += sign;
    change.digest ^= rows.RowHash();  // its own inverse
  }
  rows.Reset();
  return absl::OkStatus();
}

absl::Status TallyChanges::Write(Database& db) {
  // SQLite has no exclusive or: what is in either and not in both.
  MUSTER_ASSIGN_OR_RETURN(
      Statement upsert,
      db.Prepare("INSERT INTO tally (step, attempt, phase, tab, n, digest) VALUES (?1, ?2, ?3, ?4, ?5, ?6) "
                 "ON CONFLICT (step, attempt, phase, tab) DO UPDATE SET n = n + excluded.n, "
                 "digest = (digest | excluded.digest) & ~(digest & excluded.digest)"));
  for (const auto& [key, change] : changes_) {
    if (change.rows == 0 && change.digest == 0) continue;
    upsert.Bind(1, key.step).Bind(2, key.attempt).Bind(3, key.phase).BindText(4, key.table).Bind(5, change.rows);
    MUSTER_RETURN_IF_ERROR(upsert.Bind(6, static_cast<int64_t>(change.digest)).Run());
  }
  changes_.clear();
  return absl::OkStatus();
}

absl::Status CheckTally(Database& db, const TallyKey& key, TallyDepth depth, std::string_view what) {
  MUSTER_ASSIGN_OR_RETURN(
      Statement tally, db.Prepare("SELECT n, digest FROM tally WHERE step=?1 AND attempt=?2 AND phase=?3 AND tab=?4"));
  tally.Bind(1, key.step).Bind(2, key.attempt).Bind(3, key.phase).BindText(4, key.table);
  MUSTER_ASSIGN_OR_RETURN(const bool there, tally.Step());
  const int64_t written = there ? tally.Int(0) : 0;
  const auto digest = there ? static_cast<uint64_t>(tally.Int(1)) : 0;

  int64_t found = 0;
  uint64_t now = digest;
  if (depth == TallyDepth::kCount) {
    MUSTER_ASSIGN_OR_RETURN(Statement count, Select(db, "count(*)", key));
    MUSTER_RETURN_IF_ERROR(count.Step().status());
    found = count.Int(0);
  } else {
    MUSTER_ASSIGN_OR_RETURN(Statement rows, Select(db, "*", key));
    now = 0;
    while (true) {
      MUSTER_ASSIGN_OR_RETURN(const bool row, rows.Step());
      if (!row) break;
      ++found;
      now ^= rows.RowHash();
    }
  }
  if (found != written) return Damaged(key, what, fmt::format("{} rows are there, {} were written", found, written));
  if (now != digest) return Damaged(key, what, "its rows are not as they were written");
  return absl::OkStatus();
}

}  // namespace muster
