#include "tests/support/tgt.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "common/base/clock.h"
#include "fmt/format.h"

namespace muster::test {
namespace {

constexpr const char* kTgtd = "/usr/sbin/tgtd";
constexpr const char* kTgtadm = "/usr/sbin/tgtadm";
constexpr Nanos kPatience = 20 * kSecond;
constexpr int kStartTries = 5;  // another process may take the port in between

}  // namespace

void RequireTgtOrSkip() {
  if (access(kTgtd, X_OK) != 0 || access(kTgtadm, X_OK) != 0) Skip("needs tgtd and tgtadm (package tgt)");
  if (geteuid() != 0) Skip("tgtd needs root");
}

uint16_t FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&address), bytes) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) {
    throw std::runtime_error("no free port");
  }
  close(fd);
  return ntohs(address.sin_port);
}

Tgt::Tgt() {
  for (int i = 0;; ++i) {
    port_ = FreePort();
    try {
      Start();
      return;
    } catch (const std::runtime_error&) {
      if (i + 1 == kStartTries) throw;
    }
  }
}

Tgt::~Tgt() {
  if (pid_ > 0) Kill();
}

void Tgt::Start() {
  const std::string ipc = "TGT_IPC_SOCKET=" + dir_.path() + "/ipc";
  const std::string portal = fmt::format("portal=127.0.0.1:{}", port_);
  const std::string log = dir_.path() + "/tgtd.log";
  const char* const argv[] = {kTgtd, "-f", "-C", "7", "-t", "1", "--iscsi", portal.c_str(), nullptr};
  const char* const env[] = {ipc.c_str(), "MALLOC_MMAP_THRESHOLD_=67108864", "MALLOC_TRIM_THRESHOLD_=268435456",
                             "MALLOC_TOP_PAD_=67108864", nullptr};
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("fork");
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(out, 1);
    dup2(out, 2);
    execve(kTgtd, const_cast<char* const*>(argv), const_cast<char* const*>(env));
    _exit(127);
  }
  const Nanos deadline = SteadyClock::Get().Now() + kPatience;
  for (;;) {
    try {
      RunProgram({"/usr/bin/env", ipc, kTgtadm, "-C", "7", "--lld", "iscsi", "--op", "show", "--mode", "system"});
      return;
    } catch (const std::runtime_error&) {
      int status = 0;
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = -1;
        throw std::runtime_error("tgtd ended at once");
      }
      if (SteadyClock::Get().Now() > deadline) {
        Kill();
        throw;
      }
      sched_yield();
    }
  }
}

void Tgt::Admin(std::vector<std::string> args) {
  std::vector<std::string> argv = {
      "/usr/bin/env", "TGT_IPC_SOCKET=" + dir_.path() + "/ipc", kTgtadm, "-C", "7", "--lld", "iscsi"};
  argv.insert(argv.end(), args.begin(), args.end());
  RunProgram(argv);
  done_.push_back(std::move(args));
}

int Tgt::AddTarget(const std::string& iqn, bool open) {
  const int tid = ++targets_;
  const std::string id = std::to_string(tid);
  Admin({"--op", "new", "--mode", "target", "--tid", id, "-T", iqn});
  Set(tid, "MaxXmitDataSegmentLength", "262144");
  Set(tid, "MaxRecvDataSegmentLength", "262144");
  Set(tid, "InitialR2T", "No");
  Set(tid, "FirstBurstLength", "262144");
  Set(tid, "MaxBurstLength", "1048576");
  Set(tid, "MaxQueueCmd", "512");
  if (open) AllowAddress(tid, "ALL");
  return tid;
}

std::string Tgt::AddLun(int target, int lun, const Lun& options) {
  std::string path = options.null ? "/dev/null" : fmt::format("{}/t{}l{}.img", dir_.path(), target, lun);
  if (!options.null) {
    const std::ofstream create(path, std::ios::binary);
    if (!create || truncate(path.c_str(), static_cast<off_t>(options.bytes)) != 0) {
      throw std::runtime_error("create " + path);
    }
  }
  const std::string tid = std::to_string(target);
  const std::string number = std::to_string(lun);
  Admin({"--op", "new", "--mode", "logicalunit", "--tid", tid, "--lun", number, "-b", path, "--bstype",
         options.null ? "null" : "rdwr", "--blocksize", std::to_string(options.block)});
  if (options.thin) {
    Admin(
        {"--op", "update", "--mode", "logicalunit", "--tid", tid, "--lun", number, "--params", "thin_provisioning=1"});
  }
  if (options.read_only) {
    Admin({"--op", "update", "--mode", "logicalunit", "--tid", tid, "--lun", number, "--params", "readonly=1"});
  }
  return path;
}

void Tgt::Account(int target, const std::string& user, const std::string& secret, bool outgoing) {
  Admin({"--op", "new", "--mode", "account", "--user", user, "--password", secret});
  std::vector<std::string> bind = {"--op",   "bind", "--mode", "account", "--tid", std::to_string(target),
                                   "--user", user};
  if (outgoing) bind.emplace_back("--outgoing");
  Admin(bind);
}

void Tgt::AllowAddress(int target, const std::string& address) {
  Admin({"--op", "bind", "--mode", "target", "--tid", std::to_string(target), "-I", address});
}

void Tgt::AllowInitiator(int target, const std::string& iqn) {
  Admin({"--op", "bind", "--mode", "target", "--tid", std::to_string(target), "-Q", iqn});
}

void Tgt::Set(int target, const std::string& name, const std::string& value) {
  Admin({"--op", "update", "--mode", "target", "--tid", std::to_string(target), "--name", name, "--value", value});
}

void Tgt::Kill() {
  kill(pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

void Tgt::Restart() {
  Start();
  std::vector<std::vector<std::string>> again;
  again.swap(done_);
  for (std::vector<std::string>& args : again) Admin(std::move(args));
}

void Tgt::Stop() {
  kill(pid_, SIGSTOP);
}
void Tgt::Continue() {
  kill(pid_, SIGCONT);
}

}  // namespace muster::test
