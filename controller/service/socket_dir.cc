#include "controller/service/socket_dir.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "common/base/status.h"

namespace muster {
namespace {

absl::Status DirectoryError(const std::string& dir, std::string message) {
  return MakeError(absl::StatusCode::kPermissionDenied,
                   {.code = "SOCKET_DIRECTORY",
                    .place = dir,
                    .message = std::move(message),
                    .next = "Name a socket in a directory that only you can enter (mode 0700)."});
}

absl::Status InUse(const std::string& path, std::string message) {
  return MakeError(absl::StatusCode::kAlreadyExists, {.code = "SOCKET_IN_USE",
                                                      .place = path,
                                                      .message = std::move(message),
                                                      .next = "End the other controller, or name another socket."});
}

absl::Status CheckDirectory(const std::string& dir) {
  if (mkdir(dir.c_str(), 0700) != 0 && errno != EEXIST) {
    return DirectoryError(dir, fmt::format("it cannot be created: {}", std::strerror(errno)));
  }
  struct stat st = {};
  if (lstat(dir.c_str(), &st) != 0) return DirectoryError(dir, std::strerror(errno));
  if (!S_ISDIR(st.st_mode)) return DirectoryError(dir, "it is not a directory");
  if (st.st_uid != geteuid()) return DirectoryError(dir, fmt::format("it belongs to user {}", st.st_uid));
  if ((st.st_mode & 077) != 0) {
    return DirectoryError(dir, fmt::format("others may enter it (mode {:04o})", st.st_mode & 07777));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status PrepareSocketPath(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path[0] != '/' || path.size() >= sizeof(address.sun_path)) {
    return MakeError(absl::StatusCode::kInvalidArgument,
                     {.code = "SOCKET_PATH_TOO_LONG",
                      .place = path,
                      .message = fmt::format("a socket path is absolute and has at most {} bytes, this one has {}",
                                             sizeof(address.sun_path) - 1, path.size()),
                      .next = "Name a shorter path, e.g. below $XDG_RUNTIME_DIR."});
  }
  const size_t slash = path.rfind('/');
  if (slash + 1 == path.size()) return DirectoryError(path, "the path names a directory, not a socket");
  MUSTER_RETURN_IF_ERROR(CheckDirectory(slash == 0 ? "/" : path.substr(0, slash)));

  struct stat st = {};
  if (lstat(path.c_str(), &st) != 0) return absl::OkStatus();
  if (!S_ISSOCK(st.st_mode)) return InUse(path, "something that is no socket lies there");
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return ErrnoError(errno, "socket", path);
  const int connected = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  const int why = errno;
  close(fd);
  // A full backlog (EAGAIN) is a listener as well.
  if (connected == 0 || why != ECONNREFUSED) return InUse(path, "a controller is listening on it");
  if (unlink(path.c_str()) != 0) return ErrnoError(errno, "unlink", path);
  return absl::OkStatus();
}

std::string BootId() {
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(in, id);
  return id;
}

uint64_t TimeNamespaceInode() {
  struct stat st = {};
  return stat("/proc/self/ns/time", &st) == 0 ? st.st_ino : 0;
}

}  // namespace muster
