#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/target/target.h"

// The kinds of target behind Attach and Inspect; private to this folder.
namespace muster {

absl::StatusOr<std::unique_ptr<AttachedTarget>> AttachNull(const AttachRequest& request, const NullTarget& target);
absl::StatusOr<std::unique_ptr<AttachedTarget>> AttachFile(const AttachRequest& request, const FileTarget& target,
                                                           const AllowList& allow);
absl::StatusOr<std::unique_ptr<AttachedTarget>> AttachBlock(const AttachRequest& request, const BlockTarget& target,
                                                            const AllowList& allow);
absl::StatusOr<std::unique_ptr<AttachedTarget>> AttachIscsi(const AttachRequest& request, const IscsiTarget& target);

TargetInspection InspectFile(const FileTarget& target, const std::vector<ObjectSpec>& objects, bool writes,
                             const AllowList& allow);
TargetInspection InspectBlock(const BlockTarget& target, const std::vector<ObjectSpec>& objects, bool writes,
                              const AllowList& allow);
TargetInspection InspectIscsi(const IscsiTarget& target, const std::vector<ObjectSpec>& objects, bool writes);
TargetInspection ProbeIscsi(const IscsiTarget& target, const std::vector<ObjectSpec>& objects);

// BLOCK_ALIGNMENT unless every block of the campaign is a multiple of what the object needs.
absl::Status CheckAlignment(uint64_t min_block, uint32_t needed, const std::string& place);
// TARGET_TOO_SMALL with both numbers.
absl::Status TooSmall(const std::string& place, uint64_t needed, uint64_t offered, const std::string& why);
// "run R on host H": goes into labels.
std::string CreatedBy(const std::string& run);

using EvidenceList = std::vector<std::pair<std::string, std::string>>;

}  // namespace muster
