#include <unistd.h>

#include <variant>

#include "agent/target/parts.h"
#include "agent/target/target.h"
#include "common/base/status.h"

namespace muster {
namespace {

class AttachedNull final : public AttachedTarget {
 public:
  explicit AttachedNull(std::vector<BackendObject> objects) : objects_(std::move(objects)) {}
  const std::vector<BackendObject>& objects() const override { return objects_; }
  uint64_t generation() const override { return 0; }
  EvidenceList Evidence() const override { return {{"target", "null: no I/O"}}; }
  absl::Status Detach() override { return absl::OkStatus(); }

 private:
  std::vector<BackendObject> objects_;
};

}  // namespace

absl::Status CheckAlignment(uint64_t min_block, uint32_t needed, const std::string& place) {
  if (needed <= 1 || min_block % needed == 0) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      {.code = "BLOCK_ALIGNMENT",
       .place = place,
       .message = "blocks of " + std::to_string(min_block) +
                  " bytes are asked for, but the target needs multiples of " + std::to_string(needed),
       .next = "Use a block of " + std::to_string(needed) + " bytes or a multiple, or `direct: false` for files."});
}

absl::Status TooSmall(const std::string& place, uint64_t needed, uint64_t offered, const std::string& why) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   {.code = "TARGET_TOO_SMALL",
                    .place = place,
                    .message = "the working set needs " + std::to_string(needed) + " bytes, but the target offers " +
                               std::to_string(offered) + why,
                    .next = "Lower `size` or name a larger target."});
}

std::string CreatedBy(const std::string& run) {
  char host[256] = "";
  if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  return "run " + run + " on host " + host;
}

absl::StatusOr<std::unique_ptr<AttachedTarget>> AttachNull(const AttachRequest& request, const NullTarget& target) {
  std::vector<BackendObject> objects;
  for (const ObjectSpec& spec : request.objects) {
    if (target.size != 0 && target.size < spec.size) return TooSmall(request.target.name, spec.size, target.size, "");
    objects.push_back({.fd = -1, .size = spec.size, .base = 0, .logical_block = 1, .is_block_device = false});
  }
  return std::make_unique<AttachedNull>(std::move(objects));
}

absl::StatusOr<std::unique_ptr<AttachedTarget>> Attach(const AttachRequest& request, const AllowList& allow) {
  for (size_t i = 0; i < request.objects.size(); ++i) {
    if (request.objects[i].slot == i) continue;
    return MakeError(absl::StatusCode::kInvalidArgument,
                     {.code = "OBJECTS_INVALID",
                      .place = request.target.name,
                      .message = "object " + std::to_string(i) + " has slot " + std::to_string(request.objects[i].slot),
                      .next = "This is a fault of the controller; report it."});
  }
  return std::visit(
      [&](const auto& kind) -> absl::StatusOr<std::unique_ptr<AttachedTarget>> {
        using Kind = std::decay_t<decltype(kind)>;
        if constexpr (std::is_same_v<Kind, NullTarget>) return AttachNull(request, kind);
        if constexpr (std::is_same_v<Kind, FileTarget>) return AttachFile(request, kind, allow);
        if constexpr (std::is_same_v<Kind, BlockTarget>) return AttachBlock(request, kind, allow);
        if constexpr (std::is_same_v<Kind, IscsiTarget>) return AttachIscsi(request, kind);
      },
      request.target.kind);
}

TargetInspection ProbeTarget(const Target& target, const std::vector<ObjectSpec>& objects, bool writes,
                             const AllowList& allow) {
  const auto* iscsi = std::get_if<IscsiTarget>(&target.kind);
  if (iscsi == nullptr) return Inspect(target, objects, writes, allow);
  TargetInspection inspection = ProbeIscsi(*iscsi, objects);
  inspection.target = target.name;
  return inspection;
}

TargetInspection Inspect(const Target& target, const std::vector<ObjectSpec>& objects, bool writes,
                         const AllowList& allow) {
  TargetInspection inspection;
  if (const auto* file = std::get_if<FileTarget>(&target.kind)) {
    inspection = InspectFile(*file, objects, writes, allow);
  } else if (const auto* block = std::get_if<BlockTarget>(&target.kind)) {
    inspection = InspectBlock(*block, objects, writes, allow);
  } else if (const auto* iscsi = std::get_if<IscsiTarget>(&target.kind)) {
    inspection = InspectIscsi(*iscsi, objects, writes);
  } else {
    inspection.place = "null";
    inspection.found = "no device: operations are only timed";
    inspection.writable = true;
    inspection.verdict = "nothing is read or written";
    inspection.would_write = "nothing";
  }
  inspection.target = target.name;
  if (!inspection.refusal.ok()) {
    inspection.writable = false;
    inspection.verdict = GetErrorInfo(inspection.refusal).message;
  }
  return inspection;
}

}  // namespace muster
