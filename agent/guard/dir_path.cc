#include "agent/guard/dir_path.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string_view>

#include "common/base/status.h"

namespace muster {
namespace {

// "/a//b/./c/" -> {"a", "b", "c"}; nothing if relative or with "..".
std::optional<std::vector<std::string>> Components(std::string_view path) {
  if (path.empty() || path[0] != '/' || path.find('\0') != std::string_view::npos) return std::nullopt;
  std::vector<std::string> parts;
  while (!path.empty()) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part == "..") return std::nullopt;
    if (!part.empty() && part != ".") parts.emplace_back(part);
    path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
  }
  return parts;
}

std::string Join(const std::vector<std::string>& parts, size_t from, size_t to, const char* start) {
  std::string path = start;
  for (size_t i = from; i < to; ++i) path += (i > from ? "/" : "") + parts[i];
  return path;
}

absl::Status OpenError(int err, const std::string& path) {
  if (err == ELOOP || err == EXDEV) {
    return MakeError(absl::StatusCode::kFailedPrecondition,
                     {.code = "DIR_SYMLINK",
                      .place = path,
                      .message = "a symbolic link stands in the path",
                      .next = "Name the directory the link leads to, and allow that one with `--allow-root`."});
  }
  if (err == ENOTDIR) {
    return MakeError(absl::StatusCode::kFailedPrecondition, {.code = "DIR_NOT_A_DIRECTORY",
                                                             .place = path,
                                                             .message = "something that is not a directory stands here",
                                                             .next = "Name another directory."});
  }
  return ErrnoError(err, "cannot open the directory", path, "Check that the agent's user may enter it.");
}

absl::Status ParentMissing(const std::string& parent, const std::string& path) {
  return MakeError(absl::StatusCode::kNotFound, {.code = "DIR_PARENT_MISSING",
                                                 .place = path,
                                                 .message = "the directory above it, " + parent +
                                                            ", does not exist; muster creates only the last part",
                                                 .next = "Create it with `mkdir -p " + parent + "`."});
}

}  // namespace

int OpenBeneath(int dir, const std::string& path, int flags, unsigned mode) {
  open_how how{};
  how.flags = static_cast<uint64_t>(flags) | O_CLOEXEC;
  how.mode = mode;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  return static_cast<int>(syscall(SYS_openat2, dir, path.c_str(), &how, sizeof how));
}

absl::StatusOr<DirPlace> LocateDir(const std::string& dir, const std::vector<std::string>& allow_roots) {
  const auto parts = Components(dir);
  if (!parts.has_value()) {
    return MakeError(absl::StatusCode::kInvalidArgument,
                     {.code = "PATH_INVALID",
                      .place = dir,
                      .message = "a directory is named by an absolute path without \"..\"",
                      .next = "Write the whole path, such as /var/tmp/bench."});
  }
  DirPlace place;
  place.path = Join(*parts, 0, parts->size(), "/");
  std::optional<size_t> depth;  // components of the longest root that holds it
  for (const std::string& root : allow_roots) {
    const auto candidate = Components(root);
    if (!candidate.has_value() || candidate->size() > parts->size()) continue;
    if (!std::equal(candidate->begin(), candidate->end(), parts->begin())) continue;
    if (!depth.has_value() || candidate->size() > *depth) depth = candidate->size();
  }
  if (!depth.has_value()) {
    return MakeError(absl::StatusCode::kPermissionDenied,
                     {.code = "NOT_ALLOWED",
                      .place = place.path,
                      .message = "this agent is not allowed to work below this directory",
                      .next = "Start the agent with `--allow-root " + place.path + "`."});
  }
  if (parts->empty()) {
    place.dir = Fd(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!place.dir) return OpenError(errno, "/");
    return place;
  }
  // The trusted start: the root itself or, when the target is the root, the directory above it.
  const size_t trusted = *depth == parts->size() ? *depth - 1 : *depth;
  const std::string start = Join(*parts, 0, trusted, "/");
  const bool is_root = trusted == *depth;
  Fd base(open(start.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | (is_root && trusted > 0 ? O_NOFOLLOW : 0)));
  if (!base) {
    if (errno == ENOENT) return ParentMissing(start, place.path);
    struct stat st {};
    const int err = errno;
    const bool link = lstat(start.c_str(), &st) == 0 && S_ISLNK(st.st_mode);
    return OpenError(link ? ELOOP : err, start);
  }
  place.last = parts->back();
  if (parts->size() - trusted > 1) {
    const std::string above = Join(*parts, trusted, parts->size() - 1, "");
    place.parent = Fd(OpenBeneath(base.get(), above, O_RDONLY | O_DIRECTORY));
    if (!place.parent) {
      const std::string parent = Join(*parts, 0, parts->size() - 1, "/");
      return errno == ENOENT ? ParentMissing(parent, place.path) : OpenError(errno, parent);
    }
  } else {
    place.parent = std::move(base);
  }
  place.dir = Fd(OpenBeneath(place.parent.get(), place.last, O_RDONLY | O_DIRECTORY));
  if (!place.dir && errno != ENOENT) return OpenError(errno, place.path);
  return place;
}

}  // namespace muster
