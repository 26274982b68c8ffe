#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <array>

#include "tests/integration/controller/fixture.h"

namespace muster::test {
namespace {

// Fills the file system to the last block.
void FillUp(const std::string& path) {
  const int fd = open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  REQUIRE(fd >= 0);
  for (size_t size = 1 << 20; size >= 512;) {
    static const std::array<char, 1 << 20> kZeros{};
    if (write(fd, kZeros.data(), size) <= 0) size /= 2;
  }
  close(fd);
}

uint64_t LastRawReport(const std::string& path, const std::string& agent) {
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READONLY, nullptr) == SQLITE_OK);
  sqlite3_stmt* query = nullptr;
  REQUIRE(sqlite3_prepare_v2(db, "SELECT COUNT(*), MAX(sequence) FROM raw WHERE agent = ?", -1, &query, nullptr) ==
          SQLITE_OK);
  sqlite3_bind_text(query, 1, agent.c_str(), -1, SQLITE_TRANSIENT);
  REQUIRE(sqlite3_step(query) == SQLITE_ROW);
  const auto count = static_cast<uint64_t>(sqlite3_column_int64(query, 0));
  const auto last = static_cast<uint64_t>(sqlite3_column_int64(query, 1));
  sqlite3_finalize(query);
  sqlite3_close(db);
  CHECK(count == last);  // none is missing before it
  return last;
}

TEST_CASE("a full disk ends the run with a typed error, and what was acknowledged is there") {
  RequireRootOrSkip();
  MountedFs disk(FsKind::kTmpfs, uint64_t{96} << 20);
  Fixture f;
  f.Add();
  f.Add();
  f.options.runs_dir = disk.path();
  f.plan.steps = {NullStep(0, 2, 600), NullStep(1, 2, 2)};
  bool full = false;
  f.observer.on_live = [&] {
    if (f.observer.live.back().interval >= 3 && !std::exchange(full, true)) FillUp(disk.path() + "/ballast");
  };
  const RunOutcome outcome = f.Run();
  INFO(FormatError(outcome.error));
  CHECK(full);
  CHECK(outcome.outcome == "failed");
  CHECK(f.Code(outcome.error) == "STORE_FULL");
  CHECK(f.observer.results.at(0).outcome == StepOutcome::kFailed);
  CHECK(f.observer.results.at(1).outcome == StepOutcome::kSkipped);
  for (const auto& agent : f.agents) CHECK(agent->heard().back() == "detach");
  REQUIRE(unlink((disk.path() + "/ballast").c_str()) == 0);
  for (size_t i = 0; i < f.agents.size(); ++i) {
    CHECK(f.agents[i]->acknowledged() > 0);
    CHECK(LastRawReport(outcome.path, "agent-" + std::to_string(i)) >= f.agents[i]->acknowledged());
  }
}

TEST_CASE("a disk without room is refused before anything is attached") {
  RequireRootOrSkip();
  MountedFs disk(FsKind::kTmpfs, uint64_t{16} << 20);
  Fixture f;
  f.Add();
  f.options.runs_dir = disk.path();
  f.plan.steps = {NullStep(0, 1, 2)};
  const RunOutcome outcome = f.Run();
  CHECK(outcome.outcome == "failed");
  CHECK(f.Code(outcome.error) == "STORE_FULL");
  CHECK(f.agents[0]->heard().empty());
}

}  // namespace
}  // namespace muster::test
