// The program itself: flags, exit codes, and how it ends.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/codec.h"
#include "tests/integration/agent_link/fake_controller.h"

#ifdef MUSTER_AGENT_BINARY
namespace muster {
namespace {

class Process {
 public:
  explicit Process(std::vector<std::string> args, int inherit_fd = -1) {
    args.insert(args.begin(), MUSTER_AGENT_BINARY);
    std::vector<char*> argv;
    argv.reserve(args.size() + 1);
    for (auto& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    int out[2];
    REQUIRE(pipe2(out, O_CLOEXEC) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_adddup2(&actions, out[1], 2);
    if (inherit_fd >= 0) posix_spawn_file_actions_adddup2(&actions, inherit_fd, 9);
    REQUIRE(posix_spawn(&pid_, args[0].c_str(), &actions, nullptr, argv.data(), environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    output_ = out[0];
  }
  ~Process() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(output_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  void Signal(int signal) const { kill(pid_, signal); }
  // The exit code; -1 when it has not ended within 20 s, 1000 + signal when killed.
  int Wait() {
    const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
    REQUIRE(fd >= 0);
    pollfd ended{fd, POLLIN, 0};
    const int ready = poll(&ended, 1, 20'000);
    close(fd);
    if (ready != 1) return -1;
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }
  // Until it has printed `part`; false after 20 s or at the end of its output.
  bool WaitOutput(const std::string& part) {
    const Nanos until = SteadyClock::Get().Now() + 20 * kSecond;
    while (text_.find(part) == std::string::npos) {
      const Nanos left = until - SteadyClock::Get().Now();
      if (left <= 0 || !ReadSome(static_cast<int>(left / kMillisecond))) return false;
    }
    return true;
  }
  const std::string& Output() {  // all of it, after Wait
    while (ReadSome(20'000)) {
    }
    return text_;
  }

 private:
  bool ReadSome(int timeout_ms) {
    pollfd ready{output_, POLLIN, 0};
    char buffer[4096];
    if (poll(&ready, 1, timeout_ms) != 1) return false;
    const ssize_t got = read(output_, buffer, sizeof(buffer));
    if (got > 0) text_.append(buffer, static_cast<size_t>(got));
    return got > 0;
  }

  pid_t pid_ = -1;
  int output_ = -1;
  std::string text_;
};

TEST_CASE("wrong usage is exit 2 and says what is wrong") {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "--controller"},
      {{"--controller", "localhost:99"}, "TLS_FILES_INCOMPLETE"},
      {{"--controller", "unix:x"}, "ENDPOINT_INVALID"},
      {{"--controller", "unix:/x", "--ca", "f"}, "--ca"},
      {{"--controller", "unix:/x", "--insecure-tcp"}, "--insecure-tcp"},
      {{"--controller", "h", "--ca", "/no", "--cert", "/no", "--key", "/no"}, "SYS_ENOENT"},
      {{"--controller", "unix:/x", "--allow-root", "relative"}, "--allow-root"},
      {{"--controller", "unix:/x", "--allow-device", "sda"}, "--allow-device"},
      {{"--controller", "unix:/x", "--max-buffer-memory", "many"}, "--max-buffer-memory"},
      {{"--controller", "unix:/x", "--exit-with-fd", "88"}, "--exit-with-fd"},
      {{"--controller", "unix:/x", "--pin", "maybe"}, "--pin"},
      {{"--no-such-flag"}, "--no-such-flag"},
  };
  for (const auto& [args, text] : cases) {
    Process agent(args);
    INFO(text);
    CHECK(agent.Wait() == 2);
    CHECK(agent.Output().find(text) != std::string::npos);
  }
}

TEST_CASE("help and version are exit 0") {
  Process help({"--help"});
  CHECK(help.Wait() == 0);
  const std::string text = help.Output();
  for (const char* option :
       {"--controller", "--ca", "--insecure-tcp", "--id", "--allow-root", "--allow-device", "--workers",
        "--max-buffer-memory", "--pin", "--exit-with-fd", "--once", "--log-level", "--version"}) {
    CHECK(text.find(option) != std::string::npos);
  }
  CHECK(text.find("--test-api") == std::string::npos);
  Process version({"--version"});
  CHECK(version.Wait() == 0);
  CHECK(version.Output().find("API 3..3") != std::string::npos);
}

TEST_CASE("the process ends with the pipe of the one who started it, in the middle of a load") {
  FakeController controller;
  int life[2];
  REQUIRE(pipe2(life, O_CLOEXEC) == 0);
  Process agent({"--controller", controller.address(), "--exit-with-fd", "9", "--id", "local-1"}, life[0]);
  close(life[0]);
  REQUIRE(controller.WaitBeats(1));
  controller.Say(AttachNull());
  REQUIRE(controller.Next());
  controller.Say(PrepareMeasure(10'000));
  REQUIRE(controller.Next());
  controller.Say(StartAt(SteadyClock::Get().Now() + 100 * kMillisecond));
  REQUIRE(controller.NextReport());
  close(life[1]);
  CHECK(agent.Wait() == 0);
}

TEST_CASE("beyond the report bound histograms come once a window, in messages of their own") {
  FakeController controller;
  Process agent({"--controller", controller.address(), "--id", "local-1", "--report-bound", "0"});
  REQUIRE(controller.WaitBeats(1));
  controller.Say(AttachNull());
  REQUIRE(controller.Next());
  controller.Say(PrepareMeasure(3));
  REQUIRE(controller.Next());
  controller.Say(StartAt(SteadyClock::Get().Now() + 500 * kMillisecond));
  uint64_t left_out = 0;
  uint64_t delivered = 0;
  std::optional<v1::ReportMessage> report;
  for (uint64_t sequence = 1; (report = controller.NextReport()) && !report->has_ended(); ++sequence) {
    CHECK(report->sequence() == sequence);
    if (report->has_interval()) {
      for (const v1::InitiatorDelta& initiator : report->interval().initiators()) {
        for (const v1::KindDelta& kind : initiator.kinds()) {
          CHECK(initiator.held());
          CHECK(kind.response().counts().empty());
          CHECK(kind.response().packed().empty());
          CHECK(kind.response().count() == kind.completed());
          left_out += kind.completed();
        }
      }
      continue;
    }
    REQUIRE(report->has_held());
    CHECK(report->held().drain() == (report->held().first_interval() > 2));
    auto held = FromProto(report->held());
    REQUIRE(held.ok());
    REQUIRE(held->kind.has_value());
    const auto histogram = Histogram::Decode(held->kind->response);
    REQUIRE(histogram.ok());
    delivered += histogram->count();
  }
  REQUIRE(report.has_value());
  uint64_t completed = 0;
  for (const v1::KindTotals& kind : report->ended().totals().initiators(0).kinds()) completed += kind.completed();
  CHECK(completed > 0);
  CHECK(left_out == completed);
  CHECK(delivered == completed);
  agent.Signal(SIGTERM);
  CHECK(agent.Wait() == 0);
}

TEST_CASE("SIGTERM ends the process with 0") {
  FakeController controller;
  Process agent({"--controller", controller.address(), "--id", "local-1"});
  REQUIRE(controller.WaitBeats(1));
  agent.Signal(SIGTERM);
  CHECK(agent.Wait() == 0);
}

TEST_CASE("with --once: goodbye is exit 0, a vanished controller exit 3") {
  FakeController controller;
  Process agent({"--controller", controller.address(), "--once", "--id", "local-1"});
  REQUIRE(controller.WaitBeats(1));
  controller.Say(Bye());
  CHECK(agent.Wait() == 0);

  FakeController other;
  Process left({"--controller", other.address(), "--once", "--id", "local-1"});
  REQUIRE(other.WaitBeats(1));
  other.Vanish();
  CHECK(left.Wait() == 3);
}

TEST_CASE("an agent of another API version is refused, stays up, and says why once") {
  FakeController controller;
  controller.greet = [](const v1::Hello& hello) {
    v1::HelloReply reply;
    CHECK(hello.api_min() == 7);
    CHECK(hello.api_max() == 9);
    reply.mutable_error()->set_kind(9);
    reply.mutable_error()->set_code("API_VERSION");
    reply.mutable_error()->set_message("7..9 and 1..1");
    return reply;
  };
  Process agent({"--controller", controller.address(), "--test-api", "7-9", "--id", "local-1"});
  CHECK(agent.WaitOutput("7..9 and 1..1"));
  agent.Signal(SIGTERM);
  CHECK(agent.Wait() == 0);
}

}  // namespace
}  // namespace muster
#endif
