#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/backend/backend.h"
#include "common/plan/plan.h"
#include "common/plan/target_probe.h"

namespace muster {

// What this agent may touch on this host (--allow-root, --allow-device). Empty: nothing local but null.
struct AllowList {
  std::vector<std::string> roots;    // absolute directories
  std::vector<std::string> devices;  // absolute paths, compared after resolving links
};

// What inspection found; the material of `muster plan` and of guard refusals. Reads only.
struct TargetInspection {
  std::string target;       // name
  std::string place;        // "/dev/sdb" or "/var/tmp/bench"
  std::string identity;     // WWID, serial, backing file, or directory
  uint64_t size = 0;        // of the device; free space for directories
  std::string found;        // "blank", "muster label, generation 3", "ext4 file system \"data\"", "new directory" ...
  bool writable = false;    // the guard would let a writing step begin
  std::string verdict;      // one sentence: why (not)
  std::string would_write;  // what a writing step would overwrite or create
  absl::Status refusal;     // typed error when !writable: TARGET_MOUNTED, TARGET_HELD, TARGET_SWAP,
                            // TARGET_HAS_DATA, TARGET_WRONG_ID, TARGET_WRONG_SIZE, NOT_ALLOWED, DIR_NOT_OURS ...
  std::vector<std::string> notes;    // what a reader of figures must know: "target on the same host"
  std::optional<TargetProbe> probe;  // ProbeTarget, of an iSCSI target that let us in
};

struct AttachRequest {
  std::string run;
  Target target;
  std::vector<ObjectSpec> objects;
  bool writes = false;        // any step of the run writes or trims it
  bool guard = false;         // this agent runs the guard, labels (or marks) and holds the exclusive descriptor
  uint64_t generation = 0;    // !guard && writes: the label generation the guard agent answered; compared again
  uint64_t min_block = 4096;  // smallest block of the campaign on this target: alignment is checked against it
};

// An attached target: open descriptors by slot. Descriptors stay valid until Detach or destruction.
class AttachedTarget {
 public:
  virtual ~AttachedTarget() = default;
  virtual const std::vector<BackendObject>& objects() const = 0;
  virtual uint64_t generation() const = 0;  // of the label or directory mark; 0 when nothing is written
  // What was found and negotiated: ("file system", "ext4"), ("O_DIRECT", "effective"), ("guard", "blank") ...
  virtual std::vector<std::pair<std::string, std::string>> Evidence() const = 0;
  // Removes own files (guard only, unless keep), drops the exclusive descriptor. Idempotent.
  virtual absl::Status Detach() = 0;
};

// Opens (and for the guard agent creates, lays out, checks, labels) a target. Blocking; called from the agent's
// attach thread. Nothing is written before every check has passed; on error nothing is left behind.
absl::StatusOr<std::unique_ptr<AttachedTarget>> Attach(const AttachRequest& request, const AllowList& allow);

// Reads only; never fails as a whole: problems are in the inspection's refusal.
TargetInspection Inspect(const Target& target, const std::vector<ObjectSpec>& objects, bool writes,
                         const AllowList& allow);

// The same, but of an iSCSI target: what it offers, every LUN it reports and what the write guard says of each, as if
// all were to be written. A refusal is then that of the target as a whole, or of the first LUN of `target` that is
// absent.
TargetInspection ProbeTarget(const Target& target, const std::vector<ObjectSpec>& objects, bool writes,
                             const AllowList& allow);

}  // namespace muster
