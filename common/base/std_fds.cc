#include "common/base/std_fds.h"

#include <fcntl.h>
#include <unistd.h>

namespace muster {

void HoldStandardFds() {
  // The lowest number is free each time: open takes that one. Not O_CLOEXEC: children are no better off without.
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0) return;  // no /dev/null: as it was
  }
}

}  // namespace muster
