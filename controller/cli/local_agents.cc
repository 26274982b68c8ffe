#include "controller/cli/local_agents.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace muster {
namespace {

// The end of a log: enough to see why an agent ended, bounded.
std::string TailOf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return {};
  in.seekg(0, std::ios::end);
  const std::streamoff size = in.tellg();
  in.seekg(std::max<std::streamoff>(0, size - 1'000));
  std::string text((std::istreambuf_iterator<char>(in)), {});
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::string DescribeExit(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    return fmt::format("killed by signal {} ({})", WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)));
  }
  return fmt::format("exit code {}", WEXITSTATUS(wait_status));
}

}  // namespace

absl::StatusOr<std::string> FindAgentBinary() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string beside = error ? std::string() : (self.parent_path() / "muster-agent").string();
  if (!beside.empty() && access(beside.c_str(), X_OK) == 0) return beside;
  return MakeError(absl::StatusCode::kNotFound, {.code = "AGENT_BINARY_MISSING",
                                                 .place = beside,
                                                 .message = "muster-agent is not beside muster",
                                                 .next = "Install or build both programs into one directory."});
}

absl::StatusOr<std::unique_ptr<LocalAgents>> LocalAgents::Spawn(const LocalAgentsOptions& options) {
  std::unique_ptr<LocalAgents> agents(new LocalAgents);
  int fds[2];
  // Both ends close on exec; the read end is handed on by dup2 in each child, the write end stays here alone.
  if (pipe2(fds, O_CLOEXEC) != 0) return ErrnoError(errno, "make the life pipe of local agents", "pipe");
  agents->pipe_write_ = fds[1];
  constexpr int kChildFd = 3;
  for (uint32_t k = 1; k <= options.count; ++k) {
    Child child;
    child.id = fmt::format("local-{:0{}}", k, std::to_string(options.count).size());  // so that their names sort
    child.log = fmt::format("{}/agent-{}.log", options.log_dir, k);
    std::vector<std::string> args = {options.agent_binary,
                                     "--controller",
                                     "unix:" + options.socket_path,
                                     "--id",
                                     child.id,
                                     "--once",
                                     "--exit-with-fd",
                                     std::to_string(kChildFd),
                                     "--log-level",
                                     options.log_level};
    for (const auto& root : options.roots) args.insert(args.end(), {"--allow-root", root});
    for (const auto& device : options.devices) args.insert(args.end(), {"--allow-device", device});
    std::vector<char*> argv;
    argv.reserve(args.size() + 1);
    for (auto& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);

    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, child.log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    posix_spawn_file_actions_adddup2(&actions, fds[0], kChildFd);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setpgroup(&attributes, 0);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    const int err = posix_spawn(&child.pid, options.agent_binary.c_str(), &actions, &attributes, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (err != 0) {
      close(fds[0]);
      return AtPlace(ErrnoError(err, "start local agent", options.agent_binary), child.id);
    }
    agents->children_.push_back(std::move(child));
  }
  close(fds[0]);
  return agents;
}

LocalAgents::~LocalAgents() {
  Stop(5 * kSecond);
}

int LocalAgents::Stop(Nanos timeout) {
  if (pipe_write_ >= 0) close(pipe_write_);
  pipe_write_ = -1;
  const SteadyClock& clock = SteadyClock::Get();
  const Nanos deadline = clock.Now() + timeout;
  int killed = 0;
  for (Child& child : children_) {
    // There is no wait with a deadline for a pid: poll, coarsely, until it has passed.
    while (child.running) {
      int status = 0;
      const pid_t done = waitpid(child.pid, &status, WNOHANG);
      if (done == child.pid || (done < 0 && errno == ECHILD)) {
        child.running = false;
      } else if (clock.Now() >= deadline) {
        kill(child.pid, SIGKILL);
        waitpid(child.pid, &status, 0);
        child.running = false;
        ++killed;
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    }
  }
  return killed;
}

absl::Status LocalAgents::Check() {
  for (Child& child : children_) {
    int status = 0;
    if (child.running && waitpid(child.pid, &status, WNOHANG) == child.pid) {
      child.running = false;
      const std::string tail = TailOf(child.log);
      return MakeError(absl::StatusCode::kUnavailable, {.code = "AGENT_ENDED",
                                                        .place = "agent " + child.id,
                                                        .message = "the local agent ended: " + DescribeExit(status) +
                                                                   (tail.empty() ? "" : "; its last words: " + tail)});
    }
  }
  return absl::OkStatus();
}

std::vector<pid_t> LocalAgents::pids() const {
  std::vector<pid_t> out;
  for (const Child& child : children_) out.push_back(child.pid);
  return out;
}

}  // namespace muster
