#pragma once
#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/plan/plan.h"

namespace muster {

struct LocalAgentsOptions {
  uint32_t count = 1;
  std::string socket_path;         // where the controller listens
  std::string log_dir;             // agent-K.log go here
  std::string agent_binary;        // absolute
  std::vector<std::string> roots;  // exactly the campaign's
  std::vector<std::string> devices;
  std::string log_level = "warn";
};

// muster-agent processes of this run: posix_spawn'ed (never forked after gRPC started) in process groups of their own,
// so that Ctrl-C reaches the controller alone, with an inherited pipe whose closing ends them even if this process is
// killed. Not thread-safe.
class LocalAgents {
 public:
  // AGENT_BINARY_MISSING, AGENT_SPAWN_FAILED.
  static absl::StatusOr<std::unique_ptr<LocalAgents>> Spawn(const LocalAgentsOptions& options);
  ~LocalAgents();  // Stop with 5 s
  // Closes the pipe and waits up to `timeout` for all to end; the rest is killed. Returns how many had to be.
  int Stop(Nanos timeout);
  // OK while every agent runs; AGENT_ENDED with its exit and the last lines of its log otherwise. Never blocks.
  absl::Status Check();
  std::vector<pid_t> pids() const;

 private:
  struct Child {
    pid_t pid = -1;
    std::string id, log;
    bool running = true;
  };
  LocalAgents() = default;
  std::vector<Child> children_;
  int pipe_write_ = -1;
};

// muster-agent beside this program, whatever the working directory.
absl::StatusOr<std::string> FindAgentBinary();

// A new 0700 directory for sockets and logs below $XDG_RUNTIME_DIR or the temporary directory; removed with its files
// by the destructor. What a killed process left there (its lock has gone with it) is removed by the next Create of the
// same user, at most 64 directories a call.
class RuntimeDir {
 public:
  static absl::StatusOr<std::unique_ptr<RuntimeDir>> Create();
  ~RuntimeDir();
  const std::string& path() const { return path_; }
  RuntimeDir(const RuntimeDir&) = delete;

 private:
  RuntimeDir(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}
  std::string path_;
  int lock_;  // flock'ed while this process lives
};

}  // namespace muster
