#pragma once
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/guard/fd.h"

namespace muster {

// A target's directory, found below an allowed root without following a single link.
struct DirPlace {
  std::string path;  // normalised
  Fd parent;         // directory above; not set for "/"
  std::string last;  // name in it
  Fd dir;            // not set: does not exist yet
};

// Typed errors: NOT_ALLOWED (below no root), PATH_INVALID (relative, "..", empty), DIR_PARENT_MISSING (names the
// missing one), DIR_SYMLINK, DIR_NOT_A_DIRECTORY, SYS_*. Creates nothing. A root is trusted down to its last
// component, which must not be a link; everything below it is opened with
// openat2(RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS).
absl::StatusOr<DirPlace> LocateDir(const std::string& dir, const std::vector<std::string>& allow_roots);

// openat2 with those three flags; -1 and errno on failure.
int OpenBeneath(int dir, const std::string& path, int flags, unsigned mode = 0);

}  // namespace muster
