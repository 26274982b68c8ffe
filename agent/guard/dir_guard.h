#pragma once
#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/guard/dir_mark.h"
#include "agent/guard/dir_path.h"
#include "agent/guard/fd.h"

namespace muster {

// The directory `<dir>/muster-data`, which muster creates and marks, and the only place where it has files. Whatever
// else is in `<dir>` is never looked at; what is in `muster-data` without being listed in its mark is left alone.
//
// Blocking, one thread. An instance that is destroyed without Finish leaves everything for a later run, which
// recognises the mark (that is also what a crash leaves).
class DirGuard {
 public:
  enum class Access {
    kInspect,  // look only; the lock is tried and given back at once
    kRead,     // shared lock: a writing run is kept out
    kWrite,    // exclusive lock for the life of the instance (the guard agent)
    kFollow,   // no lock: the guard agent of the same run holds it
  };

  // Finds directory and mark; creates nothing. Typed errors: those of LocateDir, DIR_NOT_OURS (muster-data exists
  // without a valid mark, or belongs to another user, or others may write to it), TARGET_HELD (locked by another run).
  static absl::StatusOr<std::unique_ptr<DirGuard>> Open(const std::string& dir,
                                                        const std::vector<std::string>& allow_roots, Access access);

  bool dir_exists() const { return static_cast<bool>(place_.dir); }
  bool data_exists() const { return static_cast<bool>(data_); }
  const std::string& dir_path() const { return place_.path; }
  const std::string& data_path() const { return data_path_; }
  const DirMark& mark() const { return mark_; }
  // An open descriptor on the file system the data is, or would be, on.
  int any_fd() const;

  // The file, or nothing if absent. Typed errors FILE_NAME (not a plain name), FILE_NOT_OURS (not listed in the mark,
  // not a regular file, of another user, or with a second name).
  absl::StatusOr<std::optional<struct stat>> StatFile(const std::string& name) const;

  // kWrite: makes what is missing (directory, muster-data) and writes the mark with the next generation, listing
  // `files` beside those already there. On error what was made is removed again.
  absl::Status Claim(const std::set<std::string>& files);
  // Removes own files that no campaign kept and that are not in `files`: what a crashed run left.
  absl::Status RemoveStale(const std::set<std::string>& files);

  absl::StatusOr<Fd> CreateFile(const std::string& name);  // must not exist; read and write
  absl::StatusOr<Fd> OpenFile(const std::string& name, int flags) const;
  absl::Status RemoveFile(const std::string& name);

  // End of a run: `keep` marks `files` as kept; otherwise they are removed, then the mark and the directories muster
  // made, if nothing else is in them. Drops the lock. Idempotent.
  absl::Status Finish(const std::set<std::string>& files, bool keep);
  // Undoes Claim after a failure: files created by this instance go, the old mark comes back. Best effort.
  void Rollback();

 private:
  DirGuard() = default;
  absl::Status OpenData(Access access);
  absl::Status OpenMark(Access access);
  absl::Status WriteMark();
  absl::Status RemoveAll();
  std::string PathOf(const std::string& name) const { return data_path_ + "/" + name; }

  DirPlace place_;
  std::string data_path_;
  Fd data_;       // muster-data
  Fd mark_file_;  // carries the lock
  DirMark mark_;
  std::optional<DirMark> mark_before_;  // as it was before Claim
  std::set<std::string> created_;       // by this instance
  bool finished_ = false;
};

inline constexpr char kDataDirName[] = "muster-data";
inline constexpr char kMarkName[] = ".muster";

}  // namespace muster
