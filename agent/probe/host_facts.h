#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace muster {

// Who this machine is, as far as measurements care. Reads only.
struct HostFacts {
  std::string host_id;  // /etc/machine-id; the host name where there is none
  std::string host_name;
  std::string boot_id;          // random per boot; agents of one boot id and time namespace share one clock
  uint64_t time_namespace = 0;  // inode of /proc/self/ns/time; 0: the kernel has none
  std::string cpu_model;
  std::string kernel;  // "Linux 6.1.0-18-amd64 x86_64"
  std::vector<int> allowed_cpus;
};

HostFacts ReadHostFacts();

}  // namespace muster
