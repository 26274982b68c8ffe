#include <sys/prctl.h>

#include <algorithm>

#include "agent/backend/iscsi/spec_of.h"
#include "agent/target/each_lun.h"
#include "agent/target/iscsi_lun.h"
#include "agent/target/own_address.h"
#include "agent/target/parts.h"
#include "common/base/rng.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "fmt/format.h"

namespace muster {
namespace {

constexpr Nanos kAttachLimit = 50 * kSecond;  // below the controller's 60 s, so that the error that comes is ours
constexpr Nanos kInspectLimit = 20 * kSecond;
constexpr size_t kLunsDescribed = 4;  // of which every fact is told

class AttachedIscsi final : public AttachedTarget {
 public:
  const std::vector<BackendObject>& objects() const override { return objects_; }
  uint64_t generation() const override { return generation_; }
  EvidenceList Evidence() const override { return evidence_; }
  // Labels stay: they are what lets the next run in without asking. Sessions belong to the phases.
  absl::Status Detach() override {
    held_.clear();
    return absl::OkStatus();
  }

  std::vector<BackendObject> objects_;
  uint64_t generation_ = 0;
  EvidenceList evidence_;
  std::vector<Fd> held_;
};

// Initiator i works on object i modulo their number: looked at as the first of them.
absl::StatusOr<std::vector<IscsiConnectionSpec>> SpecsOf(const IscsiTarget& target, size_t objects) {
  if (!target.secret.value.empty()) prctl(PR_SET_DUMPABLE, 0);  // a core dump would hold it
  std::vector<IscsiConnectionSpec> specs;
  const uint16_t first = ExtraQualifier();  // of one initiator, too, several are looked at at once
  for (uint32_t slot = 0; slot < objects; ++slot) {
    MUSTER_ASSIGN_OR_RETURN(specs.emplace_back(), SpecOf(target, slot, slot, ExtraQualifier(first, slot)));
  }
  return specs;
}

// A number that is another one for any other label on any of the LUNs: two runs that both found a LUN blank write
// unlike labels of one generation.
uint64_t GenerationOf(const std::vector<IscsiLun>& luns) {
  uint64_t all = 0;
  for (const IscsiLun& lun : luns) {
    uint64_t state = all ^ lun.label->generation;
    for (const uint8_t byte : lun.label->uuid) state = state * 257 + byte;
    all = SplitMix64(state);
  }
  return all;
}

absl::Status LabelChanged(const std::string& place, std::string what) {
  return MakeError(
      absl::StatusCode::kAborted,
      {.code = "LABEL_CHANGED",
       .place = place,
       .message = std::move(what),
       .next = "Another run took the LUN, or this host sees another one: nothing was written; start again."});
}

// As connected to, after redirects.
std::string PortalOf(const IscsiLun& lun) {
  for (const auto& [name, value] : lun.negotiated) {
    if (name == "portal") return value;
  }
  return "";
}

std::string LabelText(const IscsiLun& lun) {
  return lun.label ? FormatUuid(lun.label->uuid) + ", generation " + std::to_string(lun.label->generation) : "none";
}

void Describe(const std::vector<IscsiLun>& luns, bool claimed, EvidenceList& out) {
  for (size_t i = 0; i < luns.size() && i < kLunsDescribed; ++i) {
    const IscsiLun& lun = luns[i];
    const std::string prefix = luns.size() == 1 ? "" : fmt::format("{}: ", i);
    out.emplace_back(prefix + "place", lun.found.place);
    out.emplace_back(prefix + "identity", lun.found.identities.front().second);
    out.emplace_back(prefix + "size", fmt::format("{} bytes", lun.found.size));
    out.emplace_back(prefix + "logical block", std::to_string(lun.found.logical_block));
    out.emplace_back(prefix + "write cache", !lun.facts.has_mode || !lun.facts.mode.has_caching ? "not told"
                                             : lun.facts.mode.write_cache                       ? "on"
                                                                                                : "off");
    if (claimed) {
      out.emplace_back(prefix + "guard",
                       (lun.found.overwrites ? "overwritten as the campaign permits: " : "") + lun.found.content);
    }
    out.emplace_back(prefix + "label", LabelText(lun));
  }
  if (luns.size() > kLunsDescribed)
    out.emplace_back("LUNs", fmt::format("{}, the first {} told", luns.size(), kLunsDescribed));
}

}  // namespace

absl::StatusOr<std::unique_ptr<AttachedTarget>> AttachIscsi(const AttachRequest& request, const IscsiTarget& target) {
  const Nanos deadline = SteadyClock::Get().Now() + kAttachLimit;
  MUSTER_ASSIGN_OR_RETURN(const std::vector<IscsiConnectionSpec> specs, SpecsOf(target, request.objects.size()));
  auto attached = std::make_unique<AttachedIscsi>();
  const bool claims = request.writes && request.guard;
  std::vector<IscsiLun> luns(specs.size());
  // All are judged before anything is written to one.
  const auto look = [&](size_t i) -> absl::Status {
    IscsiLun& lun = luns[i];
    lun.spec = specs[i];
    absl::Status judged;
    if (claims) {
      judged = ExamineLun(lun, target.overwrite, request.objects[i].size, deadline);
      if (lun.found.place.empty()) return judged;  // not even seen
    } else {
      MUSTER_ASSIGN_OR_RETURN(lun, LookAtLun(specs[i], deadline));
    }
    MUSTER_RETURN_IF_ERROR(CheckAlignment(request.min_block, lun.found.logical_block, lun.found.place));
    return judged;
  };
  MUSTER_RETURN_IF_ERROR(ForEachLun(specs, claims ? "examining what lies there" : "looking", deadline, look));
  if (claims) {
    // A label tells whose LUN it is before anything is written, so that nothing is written to one that is in use.
    for (const IscsiLun& lun : luns) {
      if (!lun.label) continue;
      MUSTER_ASSIGN_OR_RETURN(attached->held_.emplace_back(), HoldLun(lun));
    }
    const size_t held = attached->held_.size();
    attached->held_.resize(held + luns.size());
    const auto claim = [&](size_t i) -> absl::Status {
      const bool labelled = luns[i].label.has_value();
      MUSTER_RETURN_IF_ERROR(
          ClaimLun(luns[i], target.overwrite, request.objects[i].size, CreatedBy(request.run), deadline));
      if (labelled) return absl::OkStatus();
      MUSTER_ASSIGN_OR_RETURN(attached->held_[held + i], HoldLun(luns[i]));
      return absl::OkStatus();
    };
    MUSTER_RETURN_IF_ERROR(ForEachLun(specs, "writing the label", deadline, claim));
  }
  for (size_t i = 0; i < luns.size(); ++i) {
    const IscsiLun& lun = luns[i];
    if (request.writes && !lun.label) return LabelChanged(lun.found.place, "the LUN carries no label of this run");
    const bool labelled = lun.label.has_value();  // unlabelled and only read: somebody's own, all of it
    const uint64_t usable = lun.Usable(labelled);
    if (request.objects[i].size > usable) {
      return TooSmall(lun.found.place, request.objects[i].size, usable, labelled ? " (less 1 MiB at each end)" : "");
    }
    attached->objects_.push_back({.fd = -1,
                                  .size = usable,
                                  .base = labelled ? kReservedBytes : 0,
                                  .logical_block = lun.found.logical_block,
                                  .is_block_device = true});
  }
  if (request.writes) {
    attached->generation_ = GenerationOf(luns);
    if (!request.guard && attached->generation_ != request.generation) {
      return LabelChanged(luns.front().found.place, "the label has another generation than this run wrote");
    }
  }
  if (IsOwnAddress(PortalOf(luns.front()))) attached->evidence_.emplace_back("note", kSameHost);
  Describe(luns, claims, attached->evidence_);
  return attached;
}

TargetInspection InspectIscsi(const IscsiTarget& target, const std::vector<ObjectSpec>& objects, bool writes) {
  TargetInspection inspection;
  inspection.place = fmt::format("{} LUN {}{}", target.iqn, target.luns.front(),
                                 objects.size() > 1 ? fmt::format(" and {} more", objects.size() - 1) : "");
  inspection.found = "not examined";
  inspection.would_write = "nothing: refused";
  const Nanos deadline = SteadyClock::Get().Now() + kInspectLimit;
  const auto specs = SpecsOf(target, objects.size());
  inspection.refusal = specs.status();
  if (!specs.ok()) return inspection;
  std::string found;
  std::string lost;
  uint64_t needed = 0;
  std::vector<IscsiLun> luns(specs->size());
  std::vector<absl::Status> judged(specs->size());
  const auto look = [&](size_t i) -> absl::Status {
    luns[i].spec = (*specs)[i];
    if (writes) {
      judged[i] = ExamineLun(luns[i], target.overwrite, objects[i].size, deadline);
      return luns[i].found.place.empty() ? judged[i] : absl::OkStatus();
    }
    MUSTER_ASSIGN_OR_RETURN(luns[i], LookAtLun((*specs)[i], deadline));
    return absl::OkStatus();
  };
  const absl::Status looked = ForEachLun(*specs, "looking", deadline, look);
  for (size_t i = 0; i < specs->size() && inspection.refusal.ok(); ++i) {
    IscsiLun* const lun = &luns[i];
    if (lun->found.place.empty()) {  // not even seen
      inspection.refusal = looked;
      return inspection;
    }
    if (i == 0) {
      inspection.place = lun->found.place + (objects.size() > 1 ? fmt::format(" and {} more", objects.size() - 1) : "");
      inspection.identity = lun->found.identities.front().second;
      if (IsOwnAddress(PortalOf(*lun))) inspection.notes.emplace_back(kSameHost);
    }
    inspection.size += lun->found.size;
    needed += objects[i].size;
    if (writes) {
      inspection.refusal = judged[i];
      if (lun->found.overwrites) lost += (lost.empty() ? "" : "; ") + lun->found.content;
    } else {
      const uint64_t usable = lun->Usable(lun->label.has_value());
      if (objects[i].size > usable) inspection.refusal = TooSmall(lun->found.place, objects[i].size, usable, "");
      lun->found.content =
          lun->label ? "muster label, generation " + std::to_string(lun->label->generation) : "no muster label";
    }
    if (i < kLunsDescribed && !lun->found.content.empty()) found += (found.empty() ? "" : "; ") + lun->found.content;
  }
  if (!found.empty()) inspection.found = found;
  if (!inspection.refusal.ok()) return inspection;
  if (!writes) {
    inspection.verdict = "read only: nothing is written";
    inspection.would_write = "nothing";
    return inspection;
  }
  inspection.writable = true;
  inspection.verdict =
      lost.empty() ? "blank, or it carries muster's label" : "the campaign names this LUN for overwriting";
  inspection.would_write =
      fmt::format("a label in the first 4 KiB and up to {} from 1 MiB on, on {} LUN{}",
                  FormatBytesHuman(static_cast<double>(needed)), objects.size(), objects.size() == 1 ? "" : "s");
  if (!lost.empty()) inspection.would_write += "; the first and last 8 MiB are erased, it now holds: " + lost;
  return inspection;
}

}  // namespace muster
