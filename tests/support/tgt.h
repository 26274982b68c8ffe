#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/loop_fs.h"

namespace muster::test {

// Ends the process with exit code 77 and the reason unless tgtd and tgtadm are installed.
void RequireTgtOrSkip();

// A real iSCSI target (tgtd) on a free loopback port, with its own control socket and its backing files in a temporary
// directory, tuned as for benches: large PDUs, unsolicited data, no memory map per command. It is killed by its process
// id when the object goes, and by the kernel when this process dies. Throws std::runtime_error.
class Tgt {
 public:
  Tgt();
  ~Tgt();
  Tgt(const Tgt&) = delete;
  Tgt& operator=(const Tgt&) = delete;

  uint16_t port() const { return port_; }
  pid_t pid() const { return pid_; }
  const std::string& directory() const { return dir_.path(); }

  // Targets are numbered from 1 in order. `open`: every initiator may log in.
  int AddTarget(const std::string& iqn, bool open = true);
  struct Lun {
    uint64_t bytes = 32 << 20;
    uint32_t block = 512;
    bool thin = true;  // UNMAP
    bool read_only = false;
    bool null = false;  // no I/O, any size
  };
  // Returns the backing file, zeroes.
  std::string AddLun(int target, int lun, const Lun& options);
  void AddLun(int target, int lun) { AddLun(target, lun, Lun{}); }
  void Account(int target, const std::string& user, const std::string& secret, bool outgoing = false);
  void AllowAddress(int target, const std::string& address);
  void AllowInitiator(int target, const std::string& iqn);
  // A parameter of its sessions to come ("MaxQueueCmd"), or of redirection ("RedirectAddress", "RedirectPort",
  // "RedirectReason").
  void Set(int target, const std::string& name, const std::string& value);

  void Kill();     // SIGKILL, and waits for its end
  void Restart();  // after Kill: the same port, targets, LUNs and files
  void Stop();     // SIGSTOP
  void Continue();

 private:
  void Start();
  void Admin(std::vector<std::string> args);  // and again after a Restart

  TempDir dir_{"muster-tgt"};
  uint16_t port_ = 0;
  pid_t pid_ = -1;
  int targets_ = 0;
  std::vector<std::vector<std::string>> done_;
};

// A port of the loopback address that nobody listens on now.
uint16_t FreePort();

}  // namespace muster::test
