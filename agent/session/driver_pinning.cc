#include "agent/session/driver_pinning.h"

#include <dirent.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

namespace muster::agent {
namespace {

std::string CommOf(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

struct CloseDir {
  void operator()(DIR* dir) const { closedir(dir); }
};

}  // namespace

bool AloneOnHost() {
  const std::string self = std::to_string(getpid());
  const std::string name = CommOf(self);
  const std::unique_ptr<DIR, CloseDir> proc(opendir("/proc"));
  if (!proc || name.empty()) return false;
  while (const dirent* entry = readdir(proc.get())) {
    const std::string pid = entry->d_name;
    if (pid.empty() || pid[0] < '1' || pid[0] > '9' || pid == self) continue;
    if (CommOf(pid) == name) return false;
  }
  return true;
}

EngineOptions WithPinning(EngineOptions options, PinMode mode, bool alone, bool paced) {
  options.pin = mode == PinMode::kYes || (mode == PinMode::kAuto && alone && paced);
  options.may_spin = options.pin;
  return options;
}

}  // namespace muster::agent
