#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>

#include "agent/guard/block_guard.h"
#include "agent/target/direct_io.h"
#include "agent/target/parts.h"
#include "common/base/status.h"
#include "common/base/units.h"

namespace muster {
namespace {

class AttachedBlock final : public AttachedTarget {
 public:
  AttachedBlock(Fd fd, std::optional<ClaimedDevice> claim, BackendObject object, uint64_t generation,
                EvidenceList evidence)
      : fd_(std::move(fd)),
        claim_(std::move(claim)),
        objects_{object},
        generation_(generation),
        evidence_(std::move(evidence)) {}
  const std::vector<BackendObject>& objects() const override { return objects_; }
  uint64_t generation() const override { return generation_; }
  EvidenceList Evidence() const override { return evidence_; }
  absl::Status Detach() override {
    // The label stays: it is what lets the next run in without asking.
    fd_.Close();
    if (claim_.has_value()) claim_->Release();
    return absl::OkStatus();
  }

 private:
  Fd fd_;
  std::optional<ClaimedDevice> claim_;
  std::vector<BackendObject> objects_;
  uint64_t generation_;
  EvidenceList evidence_;
};

std::string IdentityText(const BlockFindings& found) {
  if (found.identities.empty()) return "none (no WWID, serial or backing file)";
  return found.identities.front().first + " " + found.identities.front().second;
}

EvidenceList DeviceEvidence(const BlockFindings& found) {
  EvidenceList evidence = {{"device", found.place},
                           {"identity", IdentityText(found)},
                           {"device size", std::to_string(found.size) + " bytes"},
                           {"logical block", std::to_string(found.logical_block)}};
  const std::string disk = "/sys/block/" + found.family.whole;
  const auto add = [&](const char* name, const std::string& path) {
    const std::string value = ReadLine(disk + path);
    if (!value.empty()) evidence.emplace_back(name, value);
  };
  add("device queue_depth", "/device/queue_depth");
  add("device nr_requests", "/queue/nr_requests");
  add("device write cache", "/queue/write_cache");
  add("device rotational", "/queue/rotational");
  add("loop backing file", "/loop/backing_file");
  return evidence;
}

std::string DirectEvidence(const BlockFindings& found, int fd, uint64_t base) {
  std::string text = ProbeDirect(fd, found.logical_block, base);
  // The device itself keeps nothing, but what stands behind a loop device may.
  if (text == "effective" && ReadLine("/sys/block/" + found.family.whole + "/loop/dio") == "0") {
    text = "not effective: the loop device reads its backing file through the page cache (losetup --direct-io=on)";
  }
  return text;
}

BlockGuardRequest GuardRequest(const BlockTarget& target, const std::vector<ObjectSpec>& objects,
                               const AllowList& allow, const std::string& run) {
  BlockGuardRequest request;
  request.target = target;
  request.allow_devices = allow.devices;
  for (const ObjectSpec& spec : objects) request.needed = std::max(request.needed, spec.size);
  request.created_by = CreatedBy(run);
  return request;
}

absl::StatusOr<Fd> OpenForIo(const BlockGuardRequest& guard, int mode, BlockFindings& found) {
  absl::StatusOr<Fd> fd = OpenBlockDevice(guard, mode | (guard.target.direct ? O_DIRECT : 0), found);
  if (fd.ok() || !guard.target.direct || GetErrorInfo(fd.status()).code != "SYS_EINVAL") return fd;
  return MakeError(absl::StatusCode::kFailedPrecondition, {.code = "DIRECT_UNSUPPORTED",
                                                           .place = found.place,
                                                           .message = "the device refuses O_DIRECT",
                                                           .next = "Set `direct: false`."});
}

absl::Status LabelChanged(const BlockFindings& found, std::string what) {
  return MakeError(
      absl::StatusCode::kAborted,
      {.code = "LABEL_CHANGED",
       .place = found.place,
       .message = std::move(what),
       .next = "Another run took the device, or two hosts name different ones: nothing was written; start again."});
}

}  // namespace

absl::StatusOr<std::unique_ptr<AttachedTarget>> AttachBlock(const AttachRequest& request, const BlockTarget& target,
                                                            const AllowList& allow) {
  if (request.objects.size() != 1) {
    return MakeError(absl::StatusCode::kInvalidArgument,
                     {.code = "OBJECTS_INVALID",
                      .place = request.target.name,
                      .message = "a block device is one object, not " + std::to_string(request.objects.size()),
                      .next = "This is a fault of the controller; report it."});
  }
  const BlockGuardRequest guard = GuardRequest(target, request.objects, allow, request.run);
  BlockFindings found;
  const bool claims = request.writes && request.guard;
  if (claims) MUSTER_RETURN_IF_ERROR(CheckBlockDevice(guard, found));
  // Open before the claim: the open descriptor pins the device, and a refusal of O_DIRECT comes before any write.
  BlockFindings opened;
  MUSTER_ASSIGN_OR_RETURN(Fd fd, OpenForIo(guard, request.writes ? O_RDWR : O_RDONLY, opened));
  if (!claims) found = opened;
  MUSTER_RETURN_IF_ERROR(CheckAlignment(request.min_block, opened.logical_block, found.place));

  EvidenceList evidence = DeviceEvidence(opened);
  std::optional<ClaimedDevice> claim;
  uint64_t generation = 0;
  uint64_t base = kReservedBytes;
  if (claims) {
    MUSTER_ASSIGN_OR_RETURN(claim, ClaimBlockDevice(guard, opened));
    generation = claim->label().generation;
    evidence.emplace_back("guard",
                          (claim->overwrote() ? "overwritten as the campaign permits: " : "") + claim->content());
    evidence.emplace_back("label", FormatUuid(claim->label().uuid) + ", generation " + std::to_string(generation));
  } else {
    MUSTER_ASSIGN_OR_RETURN(const std::optional<Label> label, ReadLabel(fd.get(), found.size, found.place));
    const bool labelled = label.has_value() && label->device_size == found.size;
    if (request.writes) {
      if (!labelled) return LabelChanged(found, "the device carries no label of this run");
      if (label->generation != request.generation) {
        return LabelChanged(found, "the label has generation " + std::to_string(label->generation) +
                                       ", this run wrote " + std::to_string(request.generation));
      }
      generation = label->generation;
    } else if (!labelled) {
      base = 0;  // somebody's own device, only read: all of it
    }
    evidence.emplace_back("label", labelled
                                       ? FormatUuid(label->uuid) + ", generation " + std::to_string(label->generation)
                                       : std::string("none"));
  }
  const uint64_t usable = base == 0 ? found.size : found.Usable();
  if (request.objects[0].size > usable) {
    return TooSmall(found.place, request.objects[0].size, usable, base == 0 ? "" : " (less 1 MiB at each end)");
  }
  evidence.emplace_back("O_DIRECT", target.direct ? DirectEvidence(opened, fd.get(), base) : "not asked");
  const BackendObject object{
      .fd = fd.get(), .size = usable, .base = base, .logical_block = opened.logical_block, .is_block_device = true};
  return std::make_unique<AttachedBlock>(std::move(fd), std::move(claim), object, generation, std::move(evidence));
}

TargetInspection InspectBlock(const BlockTarget& target, const std::vector<ObjectSpec>& objects, bool writes,
                              const AllowList& allow) {
  TargetInspection inspection;
  const BlockGuardRequest guard = GuardRequest(target, objects, allow, "");
  BlockFindings found;
  if (writes) {
    inspection.refusal = CheckBlockDevice(guard, found);
  } else {
    const absl::StatusOr<Fd> fd = OpenBlockDevice(guard, O_RDONLY, found);
    inspection.refusal = fd.status();
    if (fd.ok()) {
      const absl::StatusOr<std::optional<Label>> label = ReadLabel(fd->get(), found.size, found.place);
      inspection.refusal.Update(label.status());
      const bool labelled = label.ok() && label->has_value() && (*label)->device_size == found.size;
      found.content = labelled ? "muster label, generation " + std::to_string((*label)->generation) : "no muster label";
      const uint64_t usable = labelled ? found.Usable() : found.size;
      if (guard.needed > usable) inspection.refusal.Update(TooSmall(found.place, guard.needed, usable, ""));
    }
  }
  inspection.place = found.place;
  inspection.identity = found.size == 0 ? "" : IdentityText(found);
  inspection.size = found.size;
  inspection.found = found.content.empty() ? "not examined" : found.content;
  if (!writes) {
    inspection.verdict = "read only: nothing is written";
    inspection.would_write = "nothing";
    return inspection;
  }
  inspection.writable = inspection.refusal.ok();
  if (!inspection.writable) {
    inspection.would_write = "nothing: refused";
    return inspection;
  }
  inspection.verdict = found.overwrites                        ? "the campaign names this device for overwriting"
                       : found.ends.content == Content::kBlank ? "both ends are blank"
                                                               : "it carries muster's label";
  inspection.would_write = fmt::format("a label in the first 4 KiB and up to {} from 1 MiB on of {}",
                                       FormatBytesHuman(static_cast<double>(guard.needed)), found.place);
  if (found.overwrites) {
    inspection.would_write += "; the first and last MiB and every signature are erased, it now holds: " + found.content;
  }
  return inspection;
}

}  // namespace muster
