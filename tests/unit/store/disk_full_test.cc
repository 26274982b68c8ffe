#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "common/base/status.h"
#include "tests/unit/store/store_support.h"

namespace muster::test {
namespace {

// A file system of `bytes` that only this process sees and that goes with it.
void MountSmall(const std::string& dir, const char* bytes) {
  const char* failed = nullptr;
  if (unshare(CLONE_NEWNS) != 0) {
    failed = "unshare";
  } else if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    failed = "mount --make-rprivate";
  } else if (mount("tmpfs", dir.c_str(), "tmpfs", 0, bytes) != 0) {
    failed = "mount tmpfs";
  }
  if (failed == nullptr) return;
  std::printf("skipped: %s: %s (a small file system needs CAP_SYS_ADMIN)\n", failed, std::strerror(errno));
  std::fflush(stdout);
  rmdir(dir.c_str());
  _exit(77);
}

TEST_CASE("a full disk: typed, nothing acknowledged is lost, and writing goes on when there is room again") {
  TempDir dir;
  MountSmall(dir.path(), "size=4m");
  auto writer = MustCreate(dir.path(), Header("a"));
  const std::string ballast = dir.path() + "/ballast";
  {
    FILE* file = std::fopen(ballast.c_str(), "w");
    const std::string block(512 * 1024, 'b');
    REQUIRE(std::fwrite(block.data(), 1, block.size(), file) == block.size());
    REQUIRE(std::fclose(file) == 0);
  }
  uint64_t acknowledged = 0;
  absl::Status status;
  for (uint64_t sequence = 1; sequence < 2'000 && status.ok(); ++sequence) {
    status = writer->CommitReports({Report("x", sequence, 7000)});
    if (status.ok()) acknowledged = sequence;
  }
  const ErrorInfo info = GetErrorInfo(status);
  CHECK(info.code == "STORE_FULL");
  CHECK_THAT(info.place, Catch::Contains("/a/run.db"));
  CHECK_THAT(info.message, Catch::Contains("7000 bytes were to be written"));
  CHECK(acknowledged > 50);
  // Everything else says so too, and leaves nothing half done.
  for (int i = 0; i < 20; ++i) {
    const absl::Status again = writer->CommitReports({Report("x", acknowledged + 1, 20'000)});
    CHECK(GetErrorInfo(again).code == "STORE_FULL");
  }
  StepResult result;
  result.message = std::string(60'000, 'm');
  CHECK(GetErrorInfo(writer->SealStep({.run = "a", .step = 0, .phase = PhaseKind::kMeasure, .attempt = 0}, result))
            .code == "STORE_FULL");

  auto all_there = [&](uint64_t count) {
    auto raw = MustOpen(writer->path())->RawReports();
    INFO(raw.status());
    REQUIRE(raw.ok());
    REQUIRE(raw->size() == count);
    for (uint64_t i = 0; i < count; ++i) REQUIRE((*raw)[i].bytes == Report("x", i + 1, 7000).bytes);
  };
  all_there(acknowledged);
  CHECK(MustOpen(writer->path())->Results()->empty());

  REQUIRE(unlink(ballast.c_str()) == 0);
  REQUIRE(writer->CommitReports({Report("x", acknowledged + 1, 7000)}).ok());
  all_there(acknowledged + 1);
  writer.reset();
  CHECK(MustOpen(dir.path() + "/a")->RawReports()->size() == acknowledged + 1);

  // A run that cannot even begin.
  FILE* file = std::fopen(ballast.c_str(), "w");
  const std::string block(4096, 'b');
  std::setvbuf(file, nullptr, _IONBF, 0);
  for (int i = 0; i < 2'000 && std::fwrite(block.data(), 1, block.size(), file) == block.size(); ++i) {
  }
  std::fclose(file);
  CHECK(GetErrorInfo(RunWriter::Create(dir.path(), Header("b"), false).status()).code == "STORE_FULL");
  CHECK(GetErrorInfo(CheckSpace(dir.path(), 1)).code == "STORE_FULL");
  umount2(dir.path().c_str(), MNT_DETACH);
}

TEST_CASE("a full disk: how the run ended is kept all the same") {
  TempDir dir;
  MountSmall(dir.path(), "size=3m");
  auto writer = MustCreate(dir.path(), Header("a"));
  absl::Status status;
  uint64_t acknowledged = 0;
  for (uint64_t sequence = 1; sequence < 2'000 && status.ok(); ++sequence) {
    status = writer->CommitReports({Report("x", sequence, 7000)});
    if (status.ok()) acknowledged = sequence;
  }
  REQUIRE(GetErrorInfo(status).code == "STORE_FULL");
  // Not the last byte is left to anybody.
  FILE* file = std::fopen((dir.path() + "/ballast").c_str(), "w");
  const std::string block(4096, 'b');
  std::setvbuf(file, nullptr, _IONBF, 0);
  for (int i = 0; i < 2'000 && std::fwrite(block.data(), 1, block.size(), file) == block.size(); ++i) {
  }
  std::fclose(file);
  writer->Finish("failed", FormatError(status), 7).IgnoreError();  // the log cannot be written back
  writer.reset();
  const auto summary = MustOpen(dir.path() + "/a")->Summary();
  INFO(summary.status());
  REQUIRE(summary.ok());
  CHECK(summary->outcome == "failed");
  CHECK_THAT(summary->message, Catch::Contains("STORE_FULL"));
  CHECK(MustOpen(dir.path() + "/a")->RawReports()->size() == acknowledged);
  umount2(dir.path().c_str(), MNT_DETACH);
}

}  // namespace
}  // namespace muster::test
