#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "agent/guard/dir_guard.h"
#include "agent/target/direct_io.h"
#include "agent/target/parts.h"
#include "common/base/status.h"
#include "common/base/units.h"

namespace muster {
namespace {

constexpr uint64_t kBlocksUnit = 512;  // of st_blocks
constexpr int kFallocateTries = 16;    // interrupted by signals
constexpr uint64_t kSpareBytes = uint64_t{64} << 20;

class AttachedFile final : public AttachedTarget {
 public:
  AttachedFile(std::unique_ptr<DirGuard> guard, bool owns, bool keep)
      : guard_(std::move(guard)), owns_(owns), keep_(keep) {}
  const std::vector<BackendObject>& objects() const override { return objects_; }
  uint64_t generation() const override { return generation_; }
  EvidenceList Evidence() const override { return evidence_; }
  absl::Status Detach() override {
    fds_.clear();
    if (guard_ == nullptr) return absl::OkStatus();
    absl::Status status = owns_ ? guard_->Finish(names_, keep_) : absl::OkStatus();
    guard_.reset();
    return status;
  }

  std::unique_ptr<DirGuard> guard_;
  const bool owns_;
  const bool keep_;
  std::set<std::string> names_;
  std::vector<Fd> fds_;
  std::vector<BackendObject> objects_;
  uint64_t generation_ = 0;
  EvidenceList evidence_;
};

// What laying out would do, before anything is done.
struct LayoutPlan {
  std::set<std::string> names;
  std::set<std::string> reused;    // exist at the right size
  std::set<std::string> replaced;  // own files of another size
  uint64_t needed = 0;             // bytes to be allocated
  uint64_t freed = 0;              // by what is replaced or left over from a crash
  uint64_t available = 0;          // to this user, on the file system
  uint64_t spare = 0;              // that stay free
};

absl::StatusOr<LayoutPlan> PlanLayout(const DirGuard& guard, const std::vector<ObjectSpec>& objects) {
  LayoutPlan plan;
  for (const ObjectSpec& spec : objects) {
    if (!plan.names.insert(spec.name).second) {
      return MakeError(absl::StatusCode::kInvalidArgument, {.code = "OBJECTS_INVALID",
                                                            .place = guard.data_path() + "/" + spec.name,
                                                            .message = "two objects have the same name",
                                                            .next = "This is a fault of the controller; report it."});
    }
    MUSTER_ASSIGN_OR_RETURN(const auto existing, guard.StatFile(spec.name));
    const uint64_t allocated = existing.has_value() ? static_cast<uint64_t>(existing->st_blocks) * kBlocksUnit : 0;
    uint64_t more = spec.size;
    if (existing.has_value() && static_cast<uint64_t>(existing->st_size) == spec.size) {
      plan.reused.insert(spec.name);
      more -= std::min(more, allocated);
    } else if (existing.has_value()) {
      plan.replaced.insert(spec.name);
      plan.freed += allocated;
    }
    if (__builtin_add_overflow(plan.needed, more, &plan.needed)) plan.needed = UINT64_MAX;
  }
  for (const auto& [name, kept] : guard.mark().files) {
    if (kept || plan.names.count(name) > 0) continue;
    const auto stale = guard.StatFile(name);
    if (stale.ok() && stale->has_value()) plan.freed += static_cast<uint64_t>((*stale)->st_blocks) * kBlocksUnit;
  }
  struct statvfs fs {};
  if (fstatvfs(guard.any_fd(), &fs) != 0) return ErrnoError(errno, "cannot ask for free space", guard.dir_path());
  plan.available = static_cast<uint64_t>(fs.f_bavail) * fs.f_frsize;
  plan.spare = std::min(kSpareBytes, static_cast<uint64_t>(fs.f_blocks) * fs.f_frsize / 20);
  return plan;
}

absl::Status NoSpace(const DirGuard& guard, uint64_t needed, uint64_t available, uint64_t spare) {
  return MakeError(absl::StatusCode::kResourceExhausted,
                   {.code = "NO_SPACE",
                    .place = guard.data_path(),
                    .message = fmt::format("the files need {} bytes more, but {} are free of which {} must stay free",
                                           needed, available, spare),
                    .next = "Lower `size`, free some space, or use a directory on another file system."});
}

absl::Status CheckSpace(const DirGuard& guard, const LayoutPlan& plan) {
  uint64_t room = plan.available + plan.freed;
  room -= std::min(room, plan.spare);
  if (plan.needed <= room) return absl::OkStatus();
  return NoSpace(guard, plan.needed, plan.available + plan.freed, plan.spare);
}

// Where the first thing would be created: a read-only file system or missing rights are known before a run begins.
absl::Status CheckWritable(const DirGuard& guard) {
  if (faccessat(guard.any_fd(), ".", W_OK | X_OK, AT_EACCESS) == 0) return absl::OkStatus();
  const std::string& place = guard.data_exists() ? guard.data_path() : guard.dir_path();
  if (errno == EROFS) {
    return ErrnoError(errno, "cannot write", place, "Use a directory on a file system that is mounted writable.");
  }
  return ErrnoError(errno, "cannot write", place, "Check that the agent's user may write there.");
}

// Allocates; "fallocate" or "sparse".
absl::StatusOr<std::string> LayOut(const DirGuard& guard, int fd, const ObjectSpec& spec) {
  const std::string place = guard.data_path() + "/" + spec.name;
  int err = EINTR;
  for (int i = 0; i < kFallocateTries && err == EINTR; ++i) {
    err = fallocate(fd, 0, 0, static_cast<off_t>(spec.size)) == 0 ? 0 : errno;
  }
  if (err == 0) return std::string("fallocate");
  if (err == ENOSPC || err == EDQUOT) {
    struct statvfs fs {};
    const bool known = fstatvfs(fd, &fs) == 0;
    return NoSpace(guard, spec.size, known ? static_cast<uint64_t>(fs.f_bavail) * fs.f_frsize : 0, 0);
  }
  if (err != EOPNOTSUPP && err != ENOSYS) {
    return ErrnoError(err, fmt::format("cannot allocate {} bytes", spec.size), place,
                      "Lower `size`, or use a directory on another file system.");
  }
  if (ftruncate(fd, static_cast<off_t>(spec.size)) == 0)
    return std::string("sparse: this file system has no fallocate");
  return ErrnoError(errno, fmt::format("cannot make the file {} bytes long", spec.size), place,
                    "Lower `size`, or use a directory on another file system.");
}

absl::Status CreateFiles(AttachedFile& attached, const AttachRequest& request, const LayoutPlan& plan) {
  DirGuard& guard = *attached.guard_;
  MUSTER_RETURN_IF_ERROR(guard.RemoveStale(plan.names));
  std::string layout = "as kept by an earlier run";
  for (const ObjectSpec& spec : request.objects) {
    if (plan.reused.count(spec.name) > 0) continue;
    if (plan.replaced.count(spec.name) > 0) MUSTER_RETURN_IF_ERROR(guard.RemoveFile(spec.name));
    MUSTER_ASSIGN_OR_RETURN(const Fd fd, guard.CreateFile(spec.name));
    MUSTER_ASSIGN_OR_RETURN(layout, LayOut(guard, fd.get(), spec));
  }
  attached.evidence_.emplace_back(
      "files", fmt::format("{} created, {} reused", plan.names.size() - plan.reused.size(), plan.reused.size()));
  attached.evidence_.emplace_back("layout", layout);
  return absl::OkStatus();
}

absl::Status OpenFiles(AttachedFile& attached, const AttachRequest& request, const FileTarget& target) {
  const DirGuard& guard = *attached.guard_;
  std::string effect = "not asked";
  for (const ObjectSpec& spec : request.objects) {
    const std::string place = guard.data_path() + "/" + spec.name;
    const int flags = (request.writes ? O_RDWR : O_RDONLY) | (target.direct ? O_DIRECT : 0);
    MUSTER_ASSIGN_OR_RETURN(Fd fd, guard.OpenFile(spec.name, flags));
    struct stat st {};
    if (fstat(fd.get(), &st) != 0) return ErrnoError(errno, "cannot stat", place);
    if (static_cast<uint64_t>(st.st_size) < spec.size) {
      return TooSmall(place, spec.size, static_cast<uint64_t>(st.st_size), "");
    }
    uint32_t alignment = 1;
    if (target.direct) {
      MUSTER_ASSIGN_OR_RETURN(alignment, DirectAlignment(fd.get(), place));
      MUSTER_RETURN_IF_ERROR(CheckAlignment(request.min_block, alignment, place));
      if (spec.slot == 0) effect = ProbeDirect(fd.get(), alignment, 0);
    }
    attached.objects_.push_back(
        {.fd = fd.get(), .size = spec.size, .base = 0, .logical_block = alignment, .is_block_device = false});
    attached.fds_.push_back(std::move(fd));
  }
  attached.evidence_.emplace_back("O_DIRECT", effect);
  return absl::OkStatus();
}

DirGuard::Access AccessFor(const AttachRequest& request) {
  if (!request.writes) return DirGuard::Access::kRead;
  return request.guard ? DirGuard::Access::kWrite : DirGuard::Access::kFollow;
}

}  // namespace

absl::StatusOr<std::unique_ptr<AttachedTarget>> AttachFile(const AttachRequest& request, const FileTarget& target,
                                                           const AllowList& allow) {
  MUSTER_ASSIGN_OR_RETURN(auto guard, DirGuard::Open(target.dir, allow.roots, AccessFor(request)));
  const bool owns = request.writes && request.guard;
  MUSTER_ASSIGN_OR_RETURN(const LayoutPlan plan, PlanLayout(*guard, request.objects));
  auto attached = std::make_unique<AttachedFile>(std::move(guard), owns, target.keep);
  DirGuard& dir = *attached->guard_;
  attached->names_ = plan.names;
  attached->evidence_ = {{"directory", dir.data_path()}, {"file system", FileSystemName(dir.any_fd())}};
  if (owns) {
    MUSTER_RETURN_IF_ERROR(CheckSpace(dir, plan));
    const bool fresh = !dir.data_exists();
    MUSTER_RETURN_IF_ERROR(dir.Claim(plan.names));
    attached->evidence_.emplace_back(
        "guard",
        fmt::format("{}, generation {}", fresh ? "directory created and marked" : "directory carries muster's mark",
                    dir.mark().generation));
    absl::Status status = CreateFiles(*attached, request, plan);
    if (status.ok()) status = OpenFiles(*attached, request, target);
    if (!status.ok()) {
      attached->fds_.clear();
      dir.Rollback();
      return status;
    }
  } else {
    if (request.writes && dir.mark().generation != request.generation) {
      return MakeError(
          absl::StatusCode::kAborted,
          {.code = "LABEL_CHANGED",
           .place = dir.data_path(),
           .message = fmt::format("the directory's mark has generation {}, this run wrote {}", dir.mark().generation,
                                  request.generation),
           .next = "Another run took the directory, or this host sees another one: nothing was written; start again."});
    }
    MUSTER_RETURN_IF_ERROR(OpenFiles(*attached, request, target));
  }
  attached->generation_ = request.writes ? dir.mark().generation : 0;
  return attached;
}

TargetInspection InspectFile(const FileTarget& target, const std::vector<ObjectSpec>& objects, bool writes,
                             const AllowList& allow) {
  TargetInspection inspection;
  inspection.place = target.dir;
  const auto guard = DirGuard::Open(target.dir, allow.roots, DirGuard::Access::kInspect);
  if (!guard.ok()) {
    inspection.refusal = guard.status();
    inspection.found = "not examined";
    inspection.would_write = "nothing: refused";
    return inspection;
  }
  const DirGuard& dir = **guard;
  inspection.place = dir.dir_path();
  inspection.identity = dir.data_path();
  inspection.found = !dir.dir_exists()    ? "new directory"
                     : !dir.data_exists() ? "directory without muster-data"
                                          : fmt::format("muster-data with {} own files, generation {}",
                                                        dir.mark().files.size(), dir.mark().generation);
  const absl::StatusOr<LayoutPlan> plan = PlanLayout(dir, objects);
  inspection.refusal = plan.status();
  if (!plan.ok()) {
    inspection.would_write = "nothing: refused";
    return inspection;
  }
  inspection.size = plan->available;
  if (!writes) {
    inspection.would_write = "nothing";
    inspection.verdict = "read only: nothing is written";
    for (const ObjectSpec& spec : objects) {
      const auto fd = dir.OpenFile(spec.name, O_RDONLY);
      inspection.refusal.Update(fd.status());
    }
    return inspection;
  }
  inspection.refusal = CheckWritable(dir);
  inspection.refusal.Update(CheckSpace(dir, *plan));
  inspection.writable = inspection.refusal.ok();
  uint64_t bytes = 0;
  for (const ObjectSpec& spec : objects) bytes += spec.size;
  inspection.verdict = dir.data_exists() ? "muster's own directory" : "a new muster-data is made";
  inspection.would_write =
      inspection.writable
          ? fmt::format("{}{} file{} of {} in {} ({} reused, {} replaced){}",
                        dir.dir_exists() ? "" : "the directory and ", objects.size(), objects.size() == 1 ? "" : "s",
                        FormatBytesHuman(static_cast<double>(bytes)), dir.data_path(), plan->reused.size(),
                        plan->replaced.size(), target.keep ? "; kept at the end" : "; removed at the end")
          : "nothing: refused";
  return inspection;
}

}  // namespace muster
