#pragma once
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "controller/store/sqlite.h"

// What the run file knows of its own rows: of every table, and of tables by step of every step and attempt, how many
// rows there are and the exclusive or of their hashes. It is written in the transaction that writes the rows, so a row
// that is gone or changed afterwards, by hand or by a bad disk, shows when the file is read.
namespace muster {

inline constexpr int64_t kWholeRun = -1;

struct TallyKey {
  std::string table;
  int64_t step = kWholeRun, attempt = 0;
  int64_t phase = -1;                                 // raw reports alone are kept by phase
  auto operator<=>(const TallyKey&) const = default;  // NOLINT(modernize-use-nullptr): the 0 is the compiler's
};

// Changes of one transaction. Not thread-safe; errors are those of Statement.
class TallyChanges {
 public:
  // Steps a statement that returns whole rows (RETURNING *) to its end and resets it.
  absl::Status Put(const TallyKey& key, Statement& rows) { return Add(key, rows, 1); }
  absl::Status Take(const TallyKey& key, Statement& rows) { return Add(key, rows, -1); }
  // In the same transaction, last.
  absl::Status Write(Database& db);

 private:
  struct Change {
    int64_t rows = 0;
    uint64_t digest = 0;
  };
  absl::Status Add(const TallyKey& key, Statement& rows, int sign);

  std::map<TallyKey, Change> changes_;
};

enum class TallyDepth {
  kCount,  // that all rows are there: an index answers that
  kRows    // that they are as they were written: reads them all
};
// RUN_DAMAGED names the table and `what` ("step 3 (db-4k)", "the run"); its place is left to the reader.
absl::Status CheckTally(Database& db, const TallyKey& key, TallyDepth depth, std::string_view what);

}  // namespace muster
