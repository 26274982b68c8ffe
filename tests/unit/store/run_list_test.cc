#include <pwd.h>
#include <unistd.h>

#include <fstream>

#include "common/base/status.h"
#include "tests/unit/store/store_support.h"

namespace muster::test {
namespace {

void MakeRun(const std::string& runs, const std::string& id, int64_t started) {
  auto writer = MustCreate(runs, Header(id, started));
  REQUIRE(writer->Finish("complete", "", started + 1).ok());
}

TEST_CASE("runs are listed newest first, damaged ones too") {
  TempDir dir;
  CHECK(ListRuns(dir.path() + "/none").empty());
  CHECK(CheckRunsDir(dir.path()).ok());
  const absl::Status missing = CheckRunsDir(dir.path() + "/none");
  CHECK(absl::IsNotFound(missing));
  CHECK(GetErrorInfo(missing).code == "RUNS_DIR_MISSING");
  CHECK(GetErrorInfo(missing).place == dir.path() + "/none");
  MakeRun(dir.path(), "20261130-100000-a-1111", 100);
  MakeRun(dir.path(), "20261130-120000-b-2222", 300);
  MakeRun(dir.path(), "20261130-110000-c-3333", 200);
  std::filesystem::create_directory(dir.path() + "/broken");
  std::ofstream(dir.path() + "/broken/run.db") << "not a database, but long enough to be looked at as one ........";
  CHECK(GetErrorInfo(CheckRunsDir(dir.path() + "/broken/run.db")).code == "RUNS_DIR_UNREADABLE");
  std::filesystem::create_directory(dir.path() + "/no-run");
  const auto runs = ListRuns(dir.path());
  REQUIRE(runs.size() == 4);
  CHECK(runs[0].id == "20261130-120000-b-2222");
  CHECK(runs[1].id == "20261130-110000-c-3333");
  CHECK(runs[2].id == "20261130-100000-a-1111");
  CHECK(runs[3].id == "broken");
  CHECK(runs[3].outcome == "damaged");
  CHECK_THAT(runs[3].message, Catch::Contains("RUN_DAMAGED"));
  CHECK(*ResolveRun(dir.path(), "last") == runs[0].path);
}

TEST_CASE("a run is named by id, prefix, last or path") {
  TempDir dir;
  const std::string a = "20261130-100000-spine-1111";
  const std::string b = "20261130-110000-spine-2222";
  CHECK(GetErrorInfo(ResolveRun(dir.path(), "last").status()).code == "RUN_UNKNOWN");
  MakeRun(dir.path(), a, 100);
  MakeRun(dir.path(), b, 200);
  const std::string path_a = dir.path() + "/" + a + "/run.db";
  const std::string path_b = dir.path() + "/" + b + "/run.db";
  CHECK(*ResolveRun(dir.path(), a) == path_a);
  CHECK(*ResolveRun(dir.path(), "20261130-10") == path_a);
  CHECK(*ResolveRun(dir.path(), "last") == path_b);
  CHECK(*ResolveRun(dir.path(), path_a) == path_a);
  CHECK(*ResolveRun("/nowhere", dir.path() + "/" + a) == path_a);
  const ErrorInfo ambiguous = GetErrorInfo(ResolveRun(dir.path(), "20261130-1").status());
  CHECK(ambiguous.code == "RUN_AMBIGUOUS");
  CHECK_THAT(ambiguous.message, Catch::Contains(a) && Catch::Contains(b));
  const ErrorInfo unknown = GetErrorInfo(ResolveRun(dir.path(), "20261130-100000-spin-1111").status());
  CHECK(unknown.code == "RUN_UNKNOWN");
  CHECK_THAT(unknown.next, Catch::StartsWith("Near are: " + a));
  CHECK(GetErrorInfo(ResolveRun(dir.path(), "").status()).code == "RUN_UNKNOWN");
}

TEST_CASE("the default place of runs follows XDG_DATA_HOME") {
  const char* old = getenv("XDG_DATA_HOME");
  const std::string saved = old == nullptr ? "" : old;
  setenv("XDG_DATA_HOME", "/data", 1);
  CHECK(DefaultRunsDir() == "/data/muster/runs");
  setenv("XDG_DATA_HOME", "relative", 1);  // to be ignored, says the specification
  CHECK_THAT(DefaultRunsDir(), Catch::EndsWith("/.local/share/muster/runs"));
  const std::string home = getenv("HOME") == nullptr ? "" : getenv("HOME");
  unsetenv("HOME");
  CHECK(DefaultRunsDir() == std::string(getpwuid(geteuid())->pw_dir) + "/.local/share/muster/runs");
  if (!home.empty()) setenv("HOME", home.c_str(), 1);
  old == nullptr ? unsetenv("XDG_DATA_HOME") : setenv("XDG_DATA_HOME", saved.c_str(), 1);
}

}  // namespace
}  // namespace muster::test
