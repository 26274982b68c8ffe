#include <fmt/format.h>

#include <sstream>

#include "common/base/status.h"
#include "controller/store/sqlite.h"
#include "tests/unit/store/results.h"
#include "tests/unit/store/store_support.h"

// Rows of a closed run that are gone or changed: never a figure of it again.
namespace muster::test {
namespace {

std::string MakeClosed(const TempDir& dir) {
  StoreOptions options;
  options.keep_raw = true;
  auto writer = MustCreate(dir.path(), Header("a"), options);
  Plan plan;
  plan.steps.resize(2);
  plan.steps[1].index = 1;
  REQUIRE(writer->WritePlan(plan).ok());
  REQUIRE(writer->WriteAgent({.id = "local-1", .hostname = "nas"}).ok());
  REQUIRE(writer->WriteAgent({.id = "local-2", .hostname = "nas"}).ok());
  REQUIRE(writer->WriteAgent({.id = "local-2", .hostname = "nas2"}).ok());  // said again
  REQUIRE(writer->WriteEvent(1, "began").ok());
  REQUIRE(writer->WriteEvent(2, "ended").ok());
  for (uint32_t step = 0; step < 2; ++step) {
    const PhaseKey key{.run = "a", .step = step, .phase = PhaseKind::kMeasure, .attempt = 0};
    REQUIRE(writer
                ->CommitReports({Report("x", 2 * step + 1, 700, PhaseKind::kMeasure, step),
                                 Report("x", 2 * step + 2, 9000, PhaseKind::kMeasure, step)})
                .ok());
    for (int64_t k = 0; k < 3; ++k) REQUIRE(writer->WriteInterval(key, RandomInterval(k, 10 * step + k)).ok());
    StepResult result = RandomResult(step, 5 + step);
    result.outcome = StepOutcome::kValid;
    REQUIRE(writer->SealStep(key, result).ok());
  }
  REQUIRE(writer->Finish("complete", "", 3).ok());
  return writer->path();
}

std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, ',');) out.push_back(word);
  return out;
}

std::vector<std::string> Names(Database& db, const std::string& sql) {
  auto names = db.Query(sql);
  REQUIRE(names.ok());
  return Split(*names);
}

TEST_CASE("every row of every table of a closed run is missed when it is gone, noticed when it is changed") {
  TempDir dir;
  const std::string whole = MakeClosed(dir);
  std::vector<std::pair<std::string, std::string>> damages;  // table, SQL
  {
    auto db = *Database::Open(whole, Database::Mode::kWrite);
    for (const auto& table : Names(*db, "SELECT group_concat(name) FROM sqlite_master WHERE type='table'")) {
      damages.emplace_back(table, fmt::format("DELETE FROM {}", table));
      damages.emplace_back(table, fmt::format("DELETE FROM {0} WHERE rowid=(SELECT min(rowid) FROM {0})", table));
      damages.emplace_back(table, fmt::format("DELETE FROM {0} WHERE rowid=(SELECT max(rowid) FROM {0})", table));
      for (const auto& column :
           Names(*db, fmt::format("SELECT group_concat(name) FROM pragma_table_info('{}')", table))) {
        if (column == "one") continue;  // the table itself allows nothing else there
        damages.emplace_back(
            table, fmt::format("UPDATE {0} SET {1} = CASE typeof({1}) WHEN 'integer' THEN {1}+1000 WHEN 'text' THEN "
                               "{1}||'x' ELSE zeroblob(length({1})+1) END WHERE rowid=(SELECT max(rowid) FROM {0})",
                               table, column));
      }
    }
  }
  REQUIRE(damages.size() > 60);
  {
    auto reader = MustOpen(whole);
    REQUIRE(reader->Results()->size() == 2);
    CHECK(reader->Summary()->valid == 2);
    CHECK(reader->Intervals(1)->intervals.size() == 3);
  }
  const std::string path = dir.path() + "/damaged.db";
  for (const auto& [table, sql] : damages) {
    INFO(sql);
    std::filesystem::copy_file(whole, path, std::filesystem::copy_options::overwrite_existing);
    REQUIRE((*Database::Open(path, Database::Mode::kWrite))->Exec(sql.c_str()).ok());
    const auto results = MustOpen(path)->Results();
    const ErrorInfo info = GetErrorInfo(results.status());
    CHECK(info.code == "RUN_DAMAGED");
    CHECK(info.place == path);
    if (table != "tally") CHECK_THAT(info.message, Catch::Contains("table " + table));
    if (table == "groups" || table == "intervals") {
      // Counted from 1, as everywhere that people read.
      CHECK_THAT(info.message, Catch::StartsWith("step 1 (") || Catch::StartsWith("step 2 ("));
    }
    // A list counts rows, so those that are gone are missed there too; kept raw reports alone are not looked at.
    if (sql.rfind("DELETE", 0) == 0 && table != "raw" && table != "tally") {
      CHECK(GetErrorInfo(MustOpen(path)->Summary().status()).code == "RUN_DAMAGED");
    }
  }
}

TEST_CASE("rows that take each other's place are noticed") {
  TempDir dir;
  const std::string path = MakeClosed(dir);
  {
    auto db = *Database::Open(path, Database::Mode::kWrite);
    REQUIRE(db->Exec("UPDATE groups SET step=9 WHERE step=0; UPDATE groups SET step=0 WHERE step=1; "
                     "UPDATE groups SET step=1 WHERE step=9;")
                .ok());
  }
  CHECK(GetErrorInfo(MustOpen(path)->Results().status()).code == "RUN_DAMAGED");
}

TEST_CASE("what the writer itself takes away or writes again is no damage") {
  TempDir dir;
  StoreOptions options;
  options.retention_bytes = 1;  // no counters are kept but the newest
  auto writer = MustCreate(dir.path(), Header("a"), options);
  const PhaseKey key{.run = "a", .step = 0, .phase = PhaseKind::kMeasure, .attempt = 0};
  for (int64_t k = 0; k < 5; ++k) REQUIRE(writer->WriteInterval(key, RandomInterval(k, k)).ok());
  REQUIRE(writer->SealStep(key, RandomResult(0, 1)).ok());
  REQUIRE(writer->SealStep(key, RandomResult(0, 2)).ok());
  PhaseKey next = key;
  next.step = 1;
  REQUIRE(writer->WriteInterval(next, RandomInterval(0, 9)).ok());  // ends what was kept of step 0
  auto reader = MustOpen(writer->path());
  const auto results = reader->Results();
  INFO(results.status());
  REQUIRE(results.ok());
  CheckSame(results->front(), RandomResult(0, 2));
  CHECK(reader->Intervals(0)->intervals.size() == 5);
}

}  // namespace
}  // namespace muster::test
