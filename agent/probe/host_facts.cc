#include "agent/probe/host_facts.h"

#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>

#include "common/base/thread.h"

namespace muster {
namespace {

std::string FirstLine(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string CpuModel() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with("model name")) continue;
    const size_t colon = line.find(':');
    if (colon != std::string::npos && colon + 2 <= line.size()) return line.substr(colon + 2);
  }
  return "unknown";
}

}  // namespace

HostFacts ReadHostFacts() {
  HostFacts facts;
  utsname names{};
  uname(&names);
  facts.host_name = names.nodename;
  facts.kernel = std::string(names.sysname) + " " + names.release + " " + names.machine;
  facts.host_id = FirstLine("/etc/machine-id");
  if (facts.host_id.empty()) facts.host_id = facts.host_name;
  facts.boot_id = FirstLine("/proc/sys/kernel/random/boot_id");
  struct stat info {};
  if (stat("/proc/self/ns/time", &info) == 0) facts.time_namespace = info.st_ino;
  facts.cpu_model = CpuModel();
  facts.allowed_cpus = AllowedCpus();
  return facts;
}

}  // namespace muster
