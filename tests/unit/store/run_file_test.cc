#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "common/base/status.h"
#include "controller/store/schema.h"
#include "controller/store/utf8.h"
#include "tests/unit/store/store_support.h"

namespace muster::test {
namespace {

TEST_CASE("a run file holds what was written and is one file at the end") {
  TempDir dir;
  std::string path;
  {
    auto writer = MustCreate(dir.path() + "/deep/runs", Header("20261130-1-spine-ab12"));
    path = writer->path();
    CHECK(path == dir.path() + "/deep/runs/20261130-1-spine-ab12/run.db");
    Plan plan;
    plan.name = "spine";
    plan.steps.resize(3);
    REQUIRE(writer->WritePlan(plan).ok());
    RunAgent agent{.id = "local-1", .host_id = "h", .boot_id = "b", .hostname = "nas", .build = "x", .facts = {}};
    agent.facts = {{"cpu", "2"}, {"kernel", "6.18"}};
    REQUIRE(writer->WriteAgent(agent).ok());
    REQUIRE(writer->WriteEvent(17, "agent local-1 joined").ok());
    REQUIRE(writer->CommitReports({Report("local-1", 1, 7000), Report("local-1", 2, 0)}).ok());

    auto reader = MustOpen(path);  // while it is written
    CHECK(reader->Summary()->outcome == "running");
    auto raw = reader->RawReports();
    REQUIRE(raw.ok());
    REQUIRE(raw->size() == 2);
    CHECK((*raw)[0].bytes == Report("local-1", 1, 7000).bytes);
    CHECK((*raw)[1].sequence == 2);
    CHECK((*raw)[1].key.phase == PhaseKind::kMeasure);
    reader.reset();

    REQUIRE(writer->Finish("complete", "", 18).ok());
    struct stat st {};
    CHECK(stat((path + "-wal").c_str(), &st) != 0);
    CHECK(stat((path + "-shm").c_str(), &st) != 0);
  }
  // One file is the run.
  const std::string copy = dir.path() + "/mailed.db";
  std::filesystem::copy_file(path, copy);
  auto reader = MustOpen(copy);
  auto summary = reader->Summary();
  REQUIRE(summary.ok());
  CHECK(summary->id == "20261130-1-spine-ab12");
  CHECK(summary->campaign_name == "spine");
  CHECK(summary->outcome == "complete");
  CHECK(summary->steps == 3);
  CHECK(summary->finished_wall_micros == 18);
  CHECK(reader->Header()->campaign_text == Header("x").campaign_text);
  auto agents = reader->Agents();
  REQUIRE(agents.ok());
  REQUIRE(agents->size() == 1);
  CHECK((*agents)[0].facts == std::vector<std::pair<std::string, std::string>>{{"cpu", "2"}, {"kernel", "6.18"}});
  CHECK(*reader->Events() == std::vector<std::pair<int64_t, std::string>>{{17, "agent local-1 joined"}});
}

TEST_CASE("one writer: the lock names its holder and goes with it") {
  TempDir dir;
  {
    auto writer = MustCreate(dir.path(), Header("a"));
    auto second = RunWriter::Create(dir.path(), Header("a"), false);
    CHECK(GetErrorInfo(second.status()).code == "STORE_LOCKED");
    CHECK_THAT(GetErrorInfo(second.status()).message, Catch::Contains("process " + std::to_string(getpid())));
  }
  CHECK_FALSE(std::filesystem::exists(dir.path() + "/a/lock"));
  CHECK(GetErrorInfo(RunWriter::Create(dir.path(), Header("a"), false).status()).code == "STORE_EXISTS");
  CHECK(MustOpen(dir.path() + "/a")->Summary()->outcome == "interrupted");
  CHECK(GetErrorInfo(RunWriter::Create(dir.path(), Header("../a"), false).status()).code == "STORE_FAILED");
}

TEST_CASE("a report sent again after a lost acknowledgement is kept once") {
  TempDir dir;
  auto writer = MustCreate(dir.path(), Header("a"));
  REQUIRE(writer->CommitReports({Report("x", 1, 100)}).ok());
  REQUIRE(writer->CommitReports({Report("x", 1, 100), Report("x", 2, 100), Report("y", 1, 50)}).ok());
  auto raw = MustOpen(writer->path())->RawReports();
  REQUIRE(raw.ok());
  CHECK(raw->size() == 3);
}

TEST_CASE("raw reports end with their phase, unless they are to be kept") {
  TempDir dir;
  const bool keep = GENERATE(false, true);
  StoreOptions options;
  options.keep_raw = keep;
  auto writer = MustCreate(dir.path(), Header("a"), options);
  REQUIRE(
      writer->CommitReports({Report("x", 1, 100, PhaseKind::kFill), Report("x", 2, 100, PhaseKind::kMeasure)}).ok());
  REQUIRE(writer->SealPhase({.run = "a", .step = 0, .phase = PhaseKind::kFill, .attempt = 0}).ok());
  CHECK(MustOpen(writer->path())->RawReports()->size() == (keep ? 2 : 1));
  StepResult result;
  REQUIRE(writer->SealStep({.run = "a", .step = 0, .phase = PhaseKind::kMeasure, .attempt = 0}, result).ok());
  CHECK(MustOpen(writer->path())->RawReports()->size() == (keep ? 2 : 0));
}

TEST_CASE("other files, broken files and files of later releases are refused by name") {
  TempDir dir;
  const std::string path = dir.path() + "/f.db";
  CHECK(GetErrorInfo(RunReader::Open(path).status()).code == "RUN_UNKNOWN");
  std::ofstream(path) << std::string(10'000, 'x');
  CHECK(GetErrorInfo(RunReader::Open(path).status()).code == "RUN_DAMAGED");
  std::ofstream(path, std::ios::trunc) << "";  // an empty file is an empty database to SQLite
  CHECK(GetErrorInfo(RunReader::Open(path).status()).code == "RUN_DAMAGED");

  { REQUIRE(MustCreate(dir.path(), Header("a"))->Finish("complete", "", 1).ok()); }
  const std::string run = dir.path() + "/a/run.db";
  // The user version is the big-endian word at byte 60 of the file header (SQLite file format 1.3).
  const int fd = open(run.c_str(), O_RDWR | O_CLOEXEC);
  const unsigned char newer[4] = {0, 0, 0, kRunFileVersion + 1};
  REQUIRE(pwrite(fd, newer, 4, 60) == 4);
  CHECK(GetErrorInfo(RunReader::Open(run).status()).code == "RUN_NEWER");
  const unsigned char older[4] = {0, 0, 0, kRunFileVersion - 1};
  REQUIRE(pwrite(fd, older, 4, 60) == 4);
  CHECK(GetErrorInfo(RunReader::Open(run).status()).code == "RUN_OLDER");
  close(fd);
}

TEST_CASE("a truncated run file is damaged, never wrong") {
  TempDir dir;
  {
    auto writer = MustCreate(dir.path(), Header("a"));
    for (uint64_t i = 1; i <= 50; ++i) REQUIRE(writer->CommitReports({Report("x", i, 7000)}).ok());
    REQUIRE(writer->Finish("complete", "", 1).ok());
  }
  const std::string run = dir.path() + "/a/run.db";
  std::filesystem::resize_file(run, std::filesystem::file_size(run) / 2);
  auto reader = RunReader::Open(run);
  const absl::Status status = reader.ok() ? (*reader)->RawReports().status() : reader.status();
  CHECK(GetErrorInfo(status).code == "RUN_DAMAGED");
  CHECK_THAT(GetErrorInfo(status).place, Catch::Contains("run.db"));
}

TEST_CASE("a crashed run's file in a folder that cannot be written is still read") {
  TempDir dir;
  { MustCreate(dir.path(), Header("a")); }  // never finished: it stays in WAL mode
  REQUIRE(chmod(dir.path().c_str(), 0755) == 0);
  REQUIRE(chmod((dir.path() + "/a").c_str(), 0555) == 0);
  REQUIRE(chmod((dir.path() + "/a/run.db").c_str(), 0444) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    // Root may write everywhere: read as nobody.
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(2);
    auto reader = RunReader::Open(dir.path() + "/a");
    if (!reader.ok()) _exit(3);
    auto summary = (*reader)->Summary();
    _exit(summary.ok() && summary->id == "a" ? 0 : 4);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  REQUIRE(chmod((dir.path() + "/a").c_str(), 0755) == 0);
}

TEST_CASE("text that is not UTF-8 makes no run unreadable") {
  CHECK(ToUtf8("plain \xc3\xa4 \xe2\x96\x88 \xf0\x9f\x98\x80") == "plain \xc3\xa4 \xe2\x96\x88 \xf0\x9f\x98\x80");
  CHECK(ToUtf8("\xff|\xc3|\xc0\x80|\xed\xa0\x80|\xf4\x90\x80\x80|\xe2\x96") == "?|?|??|???|????|??");
  TempDir dir;
  auto writer = MustCreate(dir.path(), Header("a"));
  Plan plan;
  plan.targets.push_back({.name = "t", .kind = FileTarget{.dir = "/data/\xe4"}});
  plan.warnings = {"\xff"};
  REQUIRE(writer->WritePlan(plan).ok());
  REQUIRE(writer->WriteAgent({.id = "a", .hostname = "nas\xff", .facts = {{"\xfe", "\xfd"}}}).ok());
  StepResult result;
  result.message = "No such file: \xe4";
  REQUIRE(writer->SealStep({.run = "a", .step = 0, .phase = PhaseKind::kMeasure, .attempt = 0}, result).ok());
  auto reader = MustOpen(writer->path());
  CHECK(reader->Agents()->at(0).hostname == "nas?");
  CHECK(reader->Results()->at(0).message == "No such file: ?");
}

TEST_CASE("a reader that is attached does not keep a run from being finished") {
  TempDir dir;
  auto writer = MustCreate(dir.path(), Header("a"));
  REQUIRE(writer->CommitReports({Report("x", 1, 7000)}).ok());
  auto reader = MustOpen(writer->path());
  REQUIRE(reader->RawReports().ok());
  REQUIRE(writer->Finish("complete", "", 1).ok());
  const std::string copy = dir.path() + "/copy.db";
  std::filesystem::copy_file(writer->path(), copy);
  CHECK(MustOpen(copy)->RawReports()->size() == 1);
  CHECK(reader->Summary()->outcome == "complete");
}

}  // namespace
}  // namespace muster::test
