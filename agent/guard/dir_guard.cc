#include "agent/guard/dir_guard.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "agent/guard/label.h"
#include "common/base/status.h"

namespace muster {
namespace {

constexpr char kNewMarkName[] = ".muster.new";
constexpr size_t kMarkMax = 1 << 20;  // some 40,000 files
constexpr int kLockTries = 5;

absl::Status NotOurs(const std::string& path, std::string why) {
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      {.code = "DIR_NOT_OURS",
       .place = path,
       .message = std::move(why),
       .next = "muster writes only to a muster-data it made itself: name another directory, or move this one away."});
}

absl::Status FileNotOurs(const std::string& path, std::string why) {
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      {.code = "FILE_NOT_OURS",
       .place = path,
       .message = std::move(why),
       .next = "muster touches only files it made itself: move this one away, or name another directory."});
}

std::string ReadText(int fd) {
  std::string text(kMarkMax, '\0');
  size_t length = 0;
  while (length < text.size()) {
    const ssize_t n = pread(fd, text.data() + length, text.size() - length, static_cast<off_t>(length));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    length += static_cast<size_t>(n);
  }
  text.resize(length);
  return text;
}

bool SameFile(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// Names in a directory, dots excepted; reading starts anew whatever was read before.
std::set<std::string> NamesIn(int dir) {
  std::set<std::string> names;
  const int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* stream = copy >= 0 ? fdopendir(copy) : nullptr;
  if (stream == nullptr) {
    if (copy >= 0) close(copy);
    return names;
  }
  while (const dirent* entry = readdir(stream)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.insert(name);
  }
  closedir(stream);
  return names;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DirGuard>> DirGuard::Open(const std::string& dir,
                                                         const std::vector<std::string>& allow_roots, Access access) {
  std::unique_ptr<DirGuard> guard(new DirGuard);
  MUSTER_ASSIGN_OR_RETURN(guard->place_, LocateDir(dir, allow_roots));
  guard->data_path_ = (guard->place_.path == "/" ? "" : guard->place_.path) + "/" + kDataDirName;
  if (guard->dir_exists()) MUSTER_RETURN_IF_ERROR(guard->OpenData(access));
  return guard;
}

int DirGuard::any_fd() const {
  return data_ ? data_.get() : place_.dir ? place_.dir.get() : place_.parent.get();
}

absl::Status DirGuard::OpenData(Access access) {
  data_ = Fd(OpenBeneath(place_.dir.get(), kDataDirName, O_RDONLY | O_DIRECTORY));
  if (!data_) {
    if (errno == ENOENT) return absl::OkStatus();
    if (errno == ELOOP) return NotOurs(data_path_, "it is a symbolic link");
    if (errno == ENOTDIR) return NotOurs(data_path_, "it is not a directory");
    return ErrnoError(errno, "cannot open the directory", data_path_, "Check that the agent's user may enter it.");
  }
  struct stat st {};
  if (fstat(data_.get(), &st) != 0) return ErrnoError(errno, "cannot stat", data_path_);
  if (st.st_uid != geteuid()) return NotOurs(data_path_, "it belongs to user " + std::to_string(st.st_uid));
  if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0) return NotOurs(data_path_, "other users may write to it");
  return OpenMark(access);
}

absl::Status DirGuard::OpenMark(Access access) {
  const std::string path = PathOf(kMarkName);
  // A run that ends or re-marks replaces the file between our open and our lock: then look again.
  for (int attempt = 0; attempt < kLockTries; ++attempt) {
    mark_file_ = Fd(OpenBeneath(data_.get(), kMarkName, O_RDONLY | O_NONBLOCK));
    struct stat st {};
    if (!mark_file_ || fstat(mark_file_.get(), &st) != 0) {
      return NotOurs(data_path_, std::string("it carries no mark of muster (") + strerror(errno) + ")");
    }
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_nlink > 1) {
      return NotOurs(data_path_, "its mark is not a plain file of this user");
    }
    if (access != Access::kFollow) {
      if (flock(mark_file_.get(), (access == Access::kWrite ? LOCK_EX : LOCK_SH) | LOCK_NB) != 0) {
        return MakeError(absl::StatusCode::kFailedPrecondition,
                         {.code = "TARGET_HELD",
                          .place = data_path_,
                          .message = "another run is working in this directory",
                          .next = "Wait for it to end (`fuser -v " + path + "` names it), or name another directory."});
      }
      struct stat now {};
      if (fstatat(data_.get(), kMarkName, &now, AT_SYMLINK_NOFOLLOW) != 0 || !SameFile(now, st)) continue;
    }
    const std::optional<DirMark> mark = DecodeDirMark(ReadText(mark_file_.get()));
    if (!mark.has_value()) return NotOurs(data_path_, "its mark is damaged");
    mark_ = *mark;
    if (access == Access::kInspect) flock(mark_file_.get(), LOCK_UN);
    return absl::OkStatus();
  }
  return MakeError(absl::StatusCode::kFailedPrecondition, {.code = "TARGET_HELD",
                                                           .place = data_path_,
                                                           .message = "other runs keep starting and ending here",
                                                           .next = "Start again when they have ended."});
}

absl::StatusOr<std::optional<struct stat>> DirGuard::StatFile(const std::string& name) const {
  if (!IsDataFileName(name)) {
    return MakeError(absl::StatusCode::kInvalidArgument, {.code = "FILE_NAME",
                                                          .place = PathOf(name),
                                                          .message = "this is no plain file name",
                                                          .next = "Use letters, digits, dot, dash and underscore."});
  }
  std::optional<struct stat> found;
  if (!data_) return found;
  struct stat st {};
  if (fstatat(data_.get(), name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return found;
    return ErrnoError(errno, "cannot stat", PathOf(name));
  }
  if (mark_.files.count(name) == 0) return FileNotOurs(PathOf(name), "the file is not one that muster made");
  if (!S_ISREG(st.st_mode)) return FileNotOurs(PathOf(name), "it is not a regular file");
  if (st.st_uid != geteuid()) return FileNotOurs(PathOf(name), "it belongs to user " + std::to_string(st.st_uid));
  if (st.st_nlink > 1) return FileNotOurs(PathOf(name), "the file has a second name (hard link)");
  found = st;
  return found;
}

absl::Status DirGuard::WriteMark() {
  const std::string path = PathOf(kNewMarkName);
  const std::string text = EncodeDirMark(mark_);
  if (unlinkat(data_.get(), kNewMarkName, 0) != 0 && errno != ENOENT) {
    return ErrnoError(errno, "cannot remove what an earlier run left", path);
  }
  Fd fresh(OpenBeneath(data_.get(), kNewMarkName, O_RDWR | O_CREAT | O_EXCL, 0600));
  if (!fresh) return ErrnoError(errno, "cannot create the mark", path, "Check that the agent's user may write there.");
  const char* what = nullptr;
  // Locked before it takes the old one's place, so that the directory is never seen unlocked.
  if (flock(fresh.get(), LOCK_EX | LOCK_NB) != 0) {
    what = "cannot lock the mark";
  } else if (write(fresh.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    what = "cannot write the mark";
  } else if (fsync(fresh.get()) != 0) {
    what = "cannot flush the mark";
  } else if (renameat(data_.get(), kNewMarkName, data_.get(), kMarkName) != 0) {
    what = "cannot put the mark in place";
  }
  if (what != nullptr) {
    absl::Status status = ErrnoError(errno ? errno : ENOSPC, what, path, "Check space and permissions there.");
    unlinkat(data_.get(), kNewMarkName, 0);
    return status;
  }
  fsync(data_.get());
  mark_file_ = std::move(fresh);
  return absl::OkStatus();
}

absl::Status DirGuard::Claim(const std::set<std::string>& files) {
  const bool had_dir = dir_exists();
  const bool had_data = data_exists();
  if (had_data) {
    mark_before_ = mark_;
  } else {
    mark_ = DirMark{};
    mark_.uuid = NewUuid();
  }
  if (!had_dir) {
    if (mkdirat(place_.parent.get(), place_.last.c_str(), 0755) != 0) {
      return ErrnoError(errno, "cannot create the directory", place_.path,
                        "Check that the agent's user may write there.");
    }
    mark_.made_parent = true;
    place_.dir = Fd(OpenBeneath(place_.parent.get(), place_.last, O_RDONLY | O_DIRECTORY));
  }
  absl::Status status;
  if (!place_.dir) {
    status = ErrnoError(errno, "cannot open the new directory", place_.path);
  } else if (!had_data) {
    if (mkdirat(place_.dir.get(), kDataDirName, 0700) != 0) {
      status =
          ErrnoError(errno, "cannot create the directory", data_path_, "Check that the agent's user may write there.");
    } else {
      data_ = Fd(OpenBeneath(place_.dir.get(), kDataDirName, O_RDONLY | O_DIRECTORY));
      if (!data_) status = ErrnoError(errno, "cannot open the new directory", data_path_);
    }
  }
  if (status.ok()) {
    mark_.generation += 1;
    for (const std::string& name : files) mark_.files.emplace(name, false);
    status = WriteMark();
  }
  if (!status.ok()) {
    if (had_data) {
      mark_ = *mark_before_;
    } else {
      if (place_.dir) unlinkat(place_.dir.get(), kDataDirName, AT_REMOVEDIR);
      data_.Close();
      if (!had_dir) {
        unlinkat(place_.parent.get(), place_.last.c_str(), AT_REMOVEDIR);
        place_.dir.Close();
      }
    }
  }
  return status;
}

absl::Status DirGuard::RemoveStale(const std::set<std::string>& files) {
  std::set<std::string> stale;
  for (const auto& [name, kept] : mark_.files) {
    if (!kept && files.count(name) == 0) stale.insert(name);
  }
  if (stale.empty()) return absl::OkStatus();
  for (const std::string& name : stale) {
    MUSTER_RETURN_IF_ERROR(RemoveFile(name));
    mark_.files.erase(name);
  }
  return WriteMark();
}

absl::StatusOr<Fd> DirGuard::CreateFile(const std::string& name) {
  MUSTER_ASSIGN_OR_RETURN(const auto existing, StatFile(name));
  if (existing.has_value()) return ErrnoError(EEXIST, "cannot create the file", PathOf(name));
  Fd fd(OpenBeneath(data_.get(), name, O_RDWR | O_CREAT | O_EXCL, 0600));
  if (!fd) return ErrnoError(errno, "cannot create the file", PathOf(name), "Check space and permissions there.");
  created_.insert(name);
  return fd;
}

absl::StatusOr<Fd> DirGuard::OpenFile(const std::string& name, int flags) const {
  MUSTER_ASSIGN_OR_RETURN(const auto expected, StatFile(name));
  if (!expected.has_value()) {
    return MakeError(absl::StatusCode::kNotFound,
                     {.code = "FILE_MISSING",
                      .place = PathOf(name),
                      .message = "the file does not exist",
                      .next = "Add a fill to the step, or run first the campaign that writes it with `keep: true`."});
  }
  Fd fd(OpenBeneath(data_.get(), name, flags));
  if (!fd) {
    if (errno == EINVAL && (flags & O_DIRECT) != 0) {
      return MakeError(absl::StatusCode::kFailedPrecondition,
                       {.code = "DIRECT_UNSUPPORTED",
                        .place = PathOf(name),
                        .message = "this file system refuses O_DIRECT",
                        .next = "Set `direct: false`, or use a directory on another file system."});
    }
    return ErrnoError(errno, "cannot open the file", PathOf(name), "Check its permissions.");
  }
  struct stat now {};
  if (fstat(fd.get(), &now) != 0 || !SameFile(now, *expected)) {
    return FileNotOurs(PathOf(name), "another file took its place while it was opened");
  }
  return fd;
}

absl::Status DirGuard::RemoveFile(const std::string& name) {
  MUSTER_ASSIGN_OR_RETURN(const auto existing, StatFile(name));
  if (existing.has_value() && unlinkat(data_.get(), name.c_str(), 0) != 0 && errno != ENOENT) {
    return ErrnoError(errno, "cannot remove the file", PathOf(name), "Remove it by hand.");
  }
  created_.erase(name);
  return absl::OkStatus();
}

absl::Status DirGuard::RemoveAll() {
  const bool made_parent = mark_.made_parent;
  std::set<std::string> left = NamesIn(data_.get());
  left.erase(kMarkName);
  left.erase(kNewMarkName);
  // Something foreign or kept stays: the mark stays with it, or the directory could never be used again.
  if (!left.empty() || !mark_.files.empty()) return WriteMark();
  unlinkat(data_.get(), kNewMarkName, 0);
  if (unlinkat(data_.get(), kMarkName, 0) != 0) return ErrnoError(errno, "cannot remove the mark", PathOf(kMarkName));
  if (unlinkat(place_.dir.get(), kDataDirName, AT_REMOVEDIR) != 0 && errno != ENOENT) {
    return ErrnoError(errno, "cannot remove the directory", data_path_, "Remove it by hand.");
  }
  data_.Close();
  // Only when empty: rmdir refuses otherwise, and that is right.
  if (made_parent && place_.parent) unlinkat(place_.parent.get(), place_.last.c_str(), AT_REMOVEDIR);
  return absl::OkStatus();
}

absl::Status DirGuard::Finish(const std::set<std::string>& files, bool keep) {
  if (finished_ || !data_) return absl::OkStatus();
  finished_ = true;
  absl::Status status;
  for (const std::string& name : files) {
    if (keep) {
      mark_.files[name] = true;
      continue;
    }
    const absl::Status removed = RemoveFile(name);
    if (removed.ok()) mark_.files.erase(name);
    status.Update(removed);
  }
  status.Update(keep ? WriteMark() : RemoveAll());
  mark_file_.Close();
  return status;
}

void DirGuard::Rollback() {
  if (finished_ || !data_) return;
  finished_ = true;
  const std::set<std::string> created = created_;
  for (const std::string& name : created) {
    if (RemoveFile(name).ok()) mark_.files.erase(name);
  }
  if (mark_before_.has_value()) {
    mark_ = *mark_before_;
    WriteMark().IgnoreError();
  } else {
    mark_.files.clear();
    RemoveAll().IgnoreError();
  }
  mark_file_.Close();
}

}  // namespace muster
