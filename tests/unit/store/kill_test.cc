#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/store/store_support.h"

// A writer killed in the middle of its work: whatever it had acknowledged is in the file.
namespace muster::test {
namespace {

// Writes batches for ever and says each one's last sequence after it is committed. Forked before any thread, so it may
// go on as a process of its own.
[[noreturn]] void WriteUntilKilled(const std::string& runs, int out) {
  auto writer = RunWriter::Create(runs, Header("a"), false);
  if (!writer.ok()) _exit(1);
  uint64_t sequence = 0;
  while (true) {
    std::vector<RawReport> batch;
    batch.reserve(24);
    for (int i = 0; i < 24; ++i) batch.push_back(Report("x", ++sequence, 7000));
    if (!(*writer)->CommitReports(batch).ok()) _exit(2);
    if (write(out, &sequence, sizeof sequence) != sizeof sequence) _exit(3);
  }
}

TEST_CASE("killed while writing: every acknowledged report is there, the next writer is not locked out") {
  for (int round = 0; round < 5; ++round) {
    TempDir dir;
    int pipes[2];
    REQUIRE(pipe2(pipes, O_CLOEXEC) == 0);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) WriteUntilKilled(dir.path(), pipes[1]);
    close(pipes[1]);
    uint64_t acknowledged = 0;
    uint64_t sequence = 0;
    // Killed after a different number of batches each time, at whatever point it is in then.
    const int batches = 3 + round * 7;
    for (int i = 0; i < batches; ++i) {
      REQUIRE(read(pipes[0], &sequence, sizeof sequence) == sizeof sequence);
      acknowledged = sequence;
    }
    REQUIRE(kill(child, SIGKILL) == 0);
    while (read(pipes[0], &sequence, sizeof sequence) == sizeof sequence) acknowledged = sequence;
    close(pipes[0]);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));

    auto reader = MustOpen(dir.path() + "/a");
    CHECK(reader->Summary()->outcome == "interrupted");
    auto raw = reader->RawReports();
    REQUIRE(raw.ok());
    REQUIRE(raw->size() >= acknowledged);
    CHECK(raw->size() % 24 == 0);  // batches are whole or not there
    for (size_t i = 0; i < raw->size(); ++i) {
      REQUIRE((*raw)[i].sequence == i + 1);
      REQUIRE((*raw)[i].bytes == Report("x", i + 1, 7000).bytes);
    }
    MustCreate(dir.path(), Header("b"));
  }
}

}  // namespace
}  // namespace muster::test
