#include "controller/cli/local_agents.h"

#include <signal.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace muster {
namespace {

// Stands in for muster-agent: a script, because only starting and ending are tested here.
std::string Script(const RuntimeDir& dir, const std::string& body) {
  const std::string path = dir.path() + "/agent.sh";
  std::ofstream(path) << "#!/bin/sh\n" << body;
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

LocalAgentsOptions Options(const RuntimeDir& dir, const std::string& body, uint32_t count) {
  LocalAgentsOptions options;
  options.count = count;
  options.socket_path = dir.path() + "/s";
  options.log_dir = dir.path();
  options.agent_binary = Script(dir, body);
  return options;
}

template <typename F>
bool Eventually(F condition) {
  const Nanos deadline = SteadyClock::Get().Now() + 20 * kSecond;
  while (SteadyClock::Get().Now() < deadline) {
    if (condition()) return true;
  }
  return false;
}

TEST_CASE("the runtime directory is private and goes with its owner") {
  std::string path;
  {
    auto dir = RuntimeDir::Create();
    REQUIRE(dir.ok());
    path = (*dir)->path();
    struct stat info {};
    REQUIRE(stat(path.c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0700);
  }
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("what a killed process left is removed by the next one, what is in use is not") {
  const char* old = getenv("XDG_RUNTIME_DIR");
  const std::string saved = old == nullptr ? "" : old;
  std::string base = "/tmp/muster-runtime-XXXXXX";
  REQUIRE(mkdtemp(base.data()) != nullptr);
  setenv("XDG_RUNTIME_DIR", base.c_str(), 1);
  const auto make = [&](const std::string& name, bool lock, mode_t mode = 0700) {
    const std::string path = base + "/" + name;
    REQUIRE(mkdir(path.c_str(), mode) == 0);
    std::ofstream(path + "/agent-1.log") << "x";
    if (lock) std::ofstream(path + "/lock") << "";
    return path;
  };
  const std::string stale = make("muster-abcdef", true);
  const std::string half_made = make("muster-ghijkl", false);  // its maker may be about to lock it
  const std::string open_to_all = make("muster-mnopqr", true, 0755);
  const std::string other = make("muster-keep", true);
  {
    auto used = RuntimeDir::Create();
    REQUIRE(used.ok());
    CHECK((*used)->path().rfind(base, 0) == 0);
    CHECK_FALSE(std::filesystem::exists(stale));
    auto next = RuntimeDir::Create();
    REQUIRE(next.ok());
    CHECK(std::filesystem::exists((*used)->path()));
  }
  for (const std::string& path : {half_made, open_to_all, other}) CHECK(std::filesystem::exists(path + "/agent-1.log"));
  std::filesystem::remove_all(base);
  old == nullptr ? unsetenv("XDG_RUNTIME_DIR") : setenv("XDG_RUNTIME_DIR", saved.c_str(), 1);
}

TEST_CASE("agents end when the pipe closes") {
  auto dir = RuntimeDir::Create();
  REQUIRE(dir.ok());
  auto agents = LocalAgents::Spawn(Options(**dir, "cat <&3\n", 3));
  REQUIRE(agents.ok());
  CHECK((*agents)->pids().size() == 3);
  CHECK((*agents)->Check().ok());
  CHECK((*agents)->Stop(20 * kSecond) == 0);
  for (pid_t pid : (*agents)->pids()) CHECK(kill(pid, 0) == -1);
}

TEST_CASE("an agent that does not end is killed at the deadline") {
  auto dir = RuntimeDir::Create();
  REQUIRE(dir.ok());
  auto agents = LocalAgents::Spawn(Options(**dir, "exec sleep 1000\n", 1));
  REQUIRE(agents.ok());
  CHECK((*agents)->Stop(50 * kMillisecond) == 1);
}

TEST_CASE("an agent that ends by itself is named with its last words") {
  auto dir = RuntimeDir::Create();
  REQUIRE(dir.ok());
  auto agents = LocalAgents::Spawn(Options(**dir, "echo no such device >&2; exit 3\n", 1));
  REQUIRE(agents.ok());
  absl::Status status;
  REQUIRE(Eventually([&] { return !(status = (*agents)->Check()).ok(); }));
  const ErrorInfo info = GetErrorInfo(status);
  CHECK(info.code == "AGENT_ENDED");
  CHECK(info.place == "agent local-1");
  CHECK(info.message.find("exit code 3") != std::string::npos);
  CHECK(info.message.find("no such device") != std::string::npos);
}

TEST_CASE("a program that cannot be started is a typed error") {
  auto dir = RuntimeDir::Create();
  REQUIRE(dir.ok());
  auto options = Options(**dir, "", 1);
  options.agent_binary = (*dir)->path() + "/absent";
  auto agents = LocalAgents::Spawn(options);
  REQUIRE_FALSE(agents.ok());
  CHECK(GetErrorInfo(agents.status()).code == "SYS_ENOENT");
}

}  // namespace
}  // namespace muster
