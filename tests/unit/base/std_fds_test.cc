#include "common/base/std_fds.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>

namespace muster {
namespace {

// What a process that was started with these closed finds out; 0: all is as promised.
int InChild(std::initializer_list<int> closed) {
  const pid_t pid = fork();
  if (pid == 0) {
    for (const int fd : closed) close(fd);
    HoldStandardFds();
    int code = 0;
    for (const int fd : closed) {
      if (fcntl(fd, F_GETFD) != 0) code = 1;
      if (fd != STDIN_FILENO && (write(fd, "x", 1) != -1 || errno != EBADF)) code = 2;
    }
    if (open("/dev/null", O_RDONLY | O_CLOEXEC) <= STDERR_FILENO) code = 3;
    _exit(code);
  }
  int status = -1;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_CASE("no file gets the number of a standard one that was closed") {
  CHECK(InChild({}) == 0);
  CHECK(InChild({1}) == 0);
  CHECK(InChild({1, 2}) == 0);
  CHECK(InChild({0, 1, 2}) == 0);
}

}  // namespace
}  // namespace muster
