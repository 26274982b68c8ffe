#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

struct sqlite3;
struct sqlite3_stmt;

namespace muster {

class Database;

// A prepared statement, reusable: bind, step, reset. Not thread-safe. Must not outlive its database. Failed binds show
// at the next Step.
class Statement {
 public:
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&&) = delete;
  ~Statement();

  Statement& Bind(int index, int64_t value);
  Statement& BindText(int index, std::string_view text);
  // The bytes must stay until the statement is stepped and reset.
  Statement& BindBlob(int index, std::string_view bytes);
  // True: a row is there.
  absl::StatusOr<bool> Step();
  // Steps a statement without rows, then resets it.
  absl::Status Run();
  void Reset();

  int64_t Int(int column) const;
  std::string Text(int column) const;
  // Valid until the next Step or Reset.
  std::string_view Blob(int column) const;
  // Of all columns of the row with their types; the same on every machine, so it may be stored.
  uint64_t RowHash() const;

 private:
  friend class Database;
  Statement(Database* db, sqlite3_stmt* stmt) : db_(db), stmt_(stmt) {}
  void Note(int code);

  Database* db_;
  sqlite3_stmt* stmt_;
  int bind_error_ = 0;
};

// One SQLite connection. Not thread-safe. Blocks on the disk; a lock of another process is waited for at most 5 s.
// Typed errors: STORE_FULL (no space: names the path and the space left), RUN_DAMAGED (not a database, or a broken
// one), STORE_BUSY, STORE_FAILED. The one place that knows sqlite3.h.
class Database {
 public:
  enum class Mode { kCreate, kWrite, kRead };
  // kCreate refuses an existing file. A file in WAL mode on a medium that cannot be written is read as it is.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& path, Mode mode);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  const std::string& path() const { return path_; }
  // One or more statements without rows.
  absl::Status Exec(const char* sql);
  absl::StatusOr<Statement> Prepare(std::string_view sql);
  // The first column of the first row, or an empty text.
  absl::StatusOr<std::string> Query(std::string_view sql);
  // Writes the log back into the file and empties it. STORE_BUSY while readers hold it.
  absl::Status Checkpoint();

 private:
  friend class Statement;
  Database(std::string path, sqlite3* db) : path_(std::move(path)), db_(db) {}
  absl::Status Error(int code, std::string_view what) const;

  std::string path_;
  sqlite3* db_;
};

// BEGIN IMMEDIATE .. COMMIT; rolled back unless committed.
class Transaction {
 public:
  static absl::StatusOr<Transaction> Begin(Database& db);
  Transaction(Transaction&& other) noexcept : db_(other.db_) { other.db_ = nullptr; }
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  absl::Status Commit();

 private:
  explicit Transaction(Database* db) : db_(db) {}
  Database* db_;
};

}  // namespace muster
