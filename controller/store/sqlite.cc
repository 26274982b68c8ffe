#include "controller/store/sqlite.h"

#include <endian.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/status.h"

namespace muster {
namespace {

constexpr int kBusyMillis = 5'000;
constexpr uint64_t kFullBelow = 1 << 20;  // less free than this: a failed write failed for space

uint64_t FreeBytes(const std::string& path) {
  struct statvfs fs {};
  const size_t slash = path.rfind('/');
  const std::string dir = slash == std::string::npos ? "." : path.substr(0, slash);
  if (statvfs(dir.c_str(), &fs) != 0) return UINT64_MAX;
  return static_cast<uint64_t>(fs.f_bavail) * fs.f_frsize;
}

// SQLite says so itself for most writes; growing the shared memory of the log is an I/O error to it.
bool IsFull(int code, const std::string& path) {
  if ((code & 0xff) == SQLITE_FULL) return true;
  return (code & 0xff) == SQLITE_IOERR && FreeBytes(path) < kFullBelow;
}

bool Exists(const std::string& path) {
  struct stat st {};
  return stat(path.c_str(), &st) == 0;
}

// FNV-1a (draft-eastlake-fnv) by words of 8 bytes instead of bytes, with the high half folded in so that every bit of
// a word reaches every bit of the hash. Each step is a bijection: one changed word is always noticed.
constexpr uint64_t kHashBasis = 0xcbf29ce484222325;

uint64_t HashWord(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x100000001b3;
  return hash ^ (hash >> 32);
}

uint64_t HashBytes(uint64_t hash, std::string_view bytes) {
  hash = HashWord(hash, bytes.size());
  while (!bytes.empty()) {
    uint64_t word = 0;
    const size_t n = std::min(bytes.size(), sizeof word);
    std::memcpy(&word, bytes.data(), n);
    hash = HashWord(hash, le64toh(word));
    bytes.remove_prefix(n);
  }
  return hash;
}

// A file name as an SQLite URI: what has a meaning there is escaped.
std::string ImmutableUri(const std::string& path) {
  std::string uri = "file:";
  for (char c : path) {
    if (c == '%' || c == '?' || c == '#') {
      uri += fmt::format("%{:02x}", c);
    } else {
      uri += c;
    }
  }
  return uri + "?immutable=1";
}

}  // namespace

// ---- Statement

Statement::Statement(Statement&& other) noexcept
    : db_(other.db_), stmt_(std::exchange(other.stmt_, nullptr)), bind_error_(other.bind_error_) {}

Statement::~Statement() {
  sqlite3_finalize(stmt_);
}

void Statement::Note(int code) {
  if (bind_error_ == SQLITE_OK) bind_error_ = code;
}

Statement& Statement::Bind(int index, int64_t value) {
  Note(sqlite3_bind_int64(stmt_, index, value));
  return *this;
}

Statement& Statement::BindText(int index, std::string_view text) {
  Note(sqlite3_bind_text64(stmt_, index, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
  return *this;
}

Statement& Statement::BindBlob(int index, std::string_view bytes) {
  // A null pointer would bind NULL.
  Note(sqlite3_bind_blob64(stmt_, index, bytes.empty() ? "" : bytes.data(), bytes.size(), SQLITE_STATIC));
  return *this;
}

absl::StatusOr<bool> Statement::Step() {
  const int code = bind_error_ != SQLITE_OK ? bind_error_ : sqlite3_step(stmt_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return db_->Error(code, "cannot read or write");
}

absl::Status Statement::Run() {
  absl::Status status = Step().status();
  Reset();
  return status;
}

void Statement::Reset() {
  sqlite3_reset(stmt_);
  bind_error_ = SQLITE_OK;
}

int64_t Statement::Int(int column) const {
  return sqlite3_column_int64(stmt_, column);
}

std::string Statement::Text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(stmt_, column));
  return text == nullptr ? "" : std::string(text, sqlite3_column_bytes(stmt_, column));
}

std::string_view Statement::Blob(int column) const {
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(stmt_, column));
  return bytes == nullptr ? std::string_view() : std::string_view(bytes, sqlite3_column_bytes(stmt_, column));
}

uint64_t Statement::RowHash() const {
  uint64_t hash = kHashBasis;
  for (int i = 0; i < sqlite3_column_count(stmt_); ++i) {
    const int type = sqlite3_column_type(stmt_, i);
    hash = HashWord(hash, static_cast<uint64_t>(type));
    if (type == SQLITE_INTEGER) {
      hash = HashWord(hash, static_cast<uint64_t>(Int(i)));
    } else if (type != SQLITE_NULL) {
      hash = HashBytes(hash, Blob(i));  // a text's bytes as they are
    }
  }
  return hash;
}

// ---- Database

absl::Status Database::Error(int code, std::string_view what) const {
  const std::string detail = fmt::format("{}: {} (SQLite {})", what, db_ != nullptr ? sqlite3_errmsg(db_) : "", code);
  if (IsFull(code, path_)) {
    return MakeError(absl::StatusCode::kResourceExhausted,
                     {.code = "STORE_FULL",
                      .place = path_,
                      .message = fmt::format("the disk is full, {} bytes are left; nothing of this write was kept, "
                                             "everything committed before is",
                                             FreeBytes(path_)),
                      .next = "Free space, or choose another place with --runs."});
  }
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_ERROR:  // a statement that does not fit the file's tables
      return MakeError(absl::StatusCode::kDataLoss, {.code = "RUN_DAMAGED",
                                                     .place = path_,
                                                     .message = detail,
                                                     .next = "The file is not a run file, or it is broken."});
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return MakeError(absl::StatusCode::kUnavailable, {.code = "STORE_BUSY", .place = path_, .message = detail});
    default:
      return MakeError(absl::StatusCode::kInternal, {.code = "STORE_FAILED", .place = path_, .message = detail});
  }
}

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const std::string& path, Mode mode) {
  if (mode == Mode::kCreate && Exists(path)) {
    return MakeError(absl::StatusCode::kAlreadyExists,
                     {.code = "STORE_EXISTS", .place = path, .message = "a run file is there already"});
  }
  if (mode != Mode::kCreate && !Exists(path)) {
    return MakeError(absl::StatusCode::kNotFound,
                     {.code = "RUN_UNKNOWN", .place = path, .message = "there is no such run file"});
  }
  int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  flags |= mode == Mode::kRead ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
  if (mode == Mode::kCreate) flags |= SQLITE_OPEN_CREATE;
  sqlite3* raw = nullptr;
  int code = sqlite3_open_v2(path.c_str(), &raw, flags, nullptr);
  std::unique_ptr<Database> db(new Database(path, raw));
  if (code != SQLITE_OK) return db->Error(code, "cannot open");
  sqlite3_busy_timeout(raw, kBusyMillis);
  // A run file may come from anybody: nothing in it may run code, and broken pages are noticed.
  sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  if (absl::Status status = db->Exec("PRAGMA cell_size_check=ON"); !status.ok()) return status;
  if (mode != Mode::kRead) return db;

  auto version = db->Query("PRAGMA schema_version");
  if (version.ok()) return db;
  // WAL needs a writable folder for its index. Without a log beside it the file is whole, and can be read as it is.
  if (access(path.substr(0, path.rfind('/') + 1).c_str(), W_OK) == 0 || Exists(path + "-wal")) return version.status();
  raw = nullptr;
  code = sqlite3_open_v2(ImmutableUri(path).c_str(), &raw, flags | SQLITE_OPEN_URI, nullptr);
  db.reset(new Database(path, raw));
  if (code != SQLITE_OK) return db->Error(code, "cannot open");
  MUSTER_RETURN_IF_ERROR(db->Query("PRAGMA schema_version").status());
  return db;
}

Database::~Database() {
  sqlite3_close(db_);
}

absl::Status Database::Exec(const char* sql) {
  const int code = sqlite3_exec(db_, sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : Error(code, sql);
}

absl::StatusOr<Statement> Database::Prepare(std::string_view sql) {
  sqlite3_stmt* stmt = nullptr;
  const int code = sqlite3_prepare_v2(db_, sql.data(), static_cast<int>(sql.size()), &stmt, nullptr);
  if (code != SQLITE_OK) return Error(code, sql);
  return Statement(this, stmt);
}

absl::StatusOr<std::string> Database::Query(std::string_view sql) {
  MUSTER_ASSIGN_OR_RETURN(Statement statement, Prepare(sql));
  MUSTER_ASSIGN_OR_RETURN(const bool row, statement.Step());
  return row ? statement.Text(0) : std::string();
}

absl::Status Database::Checkpoint() {
  const int code = sqlite3_wal_checkpoint_v2(db_, nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : Error(code, "cannot write the log back");
}

// ---- Transaction

absl::StatusOr<Transaction> Transaction::Begin(Database& db) {
  MUSTER_RETURN_IF_ERROR(db.Exec("BEGIN IMMEDIATE"));
  return Transaction(&db);
}

Transaction::~Transaction() {
  // Fails when SQLite has rolled back by itself (disk full): that is what was wanted.
  if (db_ != nullptr) db_->Exec("ROLLBACK").IgnoreError();
}

absl::Status Transaction::Commit() {
  absl::Status status = db_->Exec("COMMIT");
  if (status.ok()) db_ = nullptr;
  return status;
}

}  // namespace muster
