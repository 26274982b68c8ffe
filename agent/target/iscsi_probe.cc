#include <sys/prctl.h>

#include <algorithm>

#include "agent/backend/iscsi/errors.h"
#include "agent/backend/iscsi/spec_of.h"
#include "agent/target/iscsi_lun.h"
#include "agent/target/own_address.h"
#include "agent/target/parts.h"
#include "common/base/status.h"
#include "fmt/format.h"

namespace muster {
namespace {

constexpr Nanos kProbeLimit = 50 * kSecond;  // below the session's 60 s, so that what was found by then is told

void Tell(const IscsiLunFacts& facts, ProbedLun& out) {
  const uint64_t block = facts.capacity.block_bytes;
  out.vendor = facts.inquiry.vendor;
  out.product = facts.inquiry.product;
  out.revision = facts.inquiry.revision;
  out.serial = facts.serial;
  out.wwids = facts.device_ids;
  out.size = facts.bytes();
  out.block = facts.capacity.block_bytes;
  out.physical_block = block << facts.capacity.physical_exponent;
  if (facts.has_mode) {
    out.write_protected = facts.mode.write_protected;
    out.fua = facts.mode.dpofua;
    if (facts.mode.has_caching) out.write_cache = facts.mode.write_cache;
  }
  out.unmap = facts.provisioning.unmap || facts.capacity.provisioned;
  out.reads_zeroes = facts.provisioning.reads_zeroes || facts.capacity.reads_zeroes;
  out.max_unmap = facts.limits.max_unmap_blocks * block;
  out.max_unmap_ranges = facts.limits.max_unmap_ranges;
  out.unmap_granularity = facts.limits.unmap_granularity_blocks * block;
  out.max_transfer = facts.limits.max_transfer_blocks * block;
  out.optimal_transfer = facts.limits.optimal_transfer_blocks * block;
}

// `spec` with the LUN in it. `needed` and `overwrite` are those of who asks; of other LUNs, nothing.
ProbedLun Look(const IscsiConnectionSpec& spec, bool used, uint64_t needed, const std::optional<Overwrite>& overwrite,
               Nanos deadline) {
  ProbedLun out;
  out.lun = spec.luns.front();
  out.used = used;
  if (SteadyClock::Get().Now() >= deadline) {
    out.refusal = MakeError(absl::StatusCode::kDeadlineExceeded,
                            {.code = "PROBE_TIMEOUT",
                             .place = PlaceOf(spec, spec.luns.front()),
                             .message = "not looked at: the time for this target was used up",
                             .next = "Name this LUN alone, or look why the target is slow."});
    return out;
  }
  IscsiLun lun;
  lun.spec = spec;
  out.refusal = ExamineLun(lun, used ? overwrite : std::nullopt, 0, deadline);
  Tell(lun.facts, out);
  out.found = lun.found.content;
  if (out.refusal.ok() && lun.found.Usable() < needed) {
    out.refusal = TooSmall(lun.found.place, needed, lun.found.Usable(), " (less 1 MiB at each end)");
  }
  return out;
}

}  // namespace

TargetInspection ProbeIscsi(const IscsiTarget& target, const std::vector<ObjectSpec>& objects) {
  if (!target.secret.value.empty()) prctl(PR_SET_DUMPABLE, 0);  // a core dump would hold it
  TargetInspection out;
  out.place = target.iqn;
  out.would_write = "nothing: only looked at";
  const Nanos deadline = SteadyClock::Get().Now() + kProbeLimit;
  auto spec = SpecOf(target, 0, 0, ExtraQualifier());
  out.refusal = spec.status();
  if (!spec.ok()) return out;
  out.place = PlaceOf(*spec);

  TargetProbe probe;
  std::vector<uint16_t> luns;
  {
    const auto session = IscsiProbe::Login(*spec, deadline);
    out.refusal = session.status();
    if (!session.ok()) return out;
    auto reported = (*session)->ReportLuns(deadline);
    out.refusal = reported.status();
    if (!reported.ok()) return out;
    luns = *std::move(reported);
    probe.session = (*session)->Negotiated();
    for (auto& key : (*session)->OtherKeys()) probe.session.push_back(std::move(key));
  }
  if (target.portals.size() > 1) {
    probe.session.emplace_back("portals", fmt::format("the first of {}", target.portals.size()));
  }
  if (target.target_each()) {
    probe.session.emplace_back("targets", "one for each initiator: this is that of initiator 0");
  }
  if (IsOwnAddress(probe.session.front().second)) out.notes.emplace_back(kSameHost);

  // Object i is LUN i of the list; with a target for each initiator all of that list are used here.
  const auto needed_of = [&](uint16_t lun, uint64_t& needed) {
    for (size_t i = 0; i < objects.size(); ++i) {
      const size_t at = target.target_each() ? i % target.luns.size() : i;
      if (at < target.luns.size() && target.luns[at] == lun) {
        needed = objects[i].size;
        return true;
      }
    }
    return false;
  };
  probe.luns_reported = static_cast<uint32_t>(luns.size());
  for (const uint16_t lun : luns) {
    if (probe.luns.size() == kMostProbedLuns) break;
    uint64_t needed = 0;
    const bool used = needed_of(lun, needed);
    spec->luns = {lun};
    probe.luns.push_back(Look(*spec, used, needed, target.overwrite, deadline));
    out.size += probe.luns.back().size;
  }
  for (size_t i = 0; i < objects.size() && i < target.luns.size() && out.refusal.ok(); ++i) {
    const auto lun = static_cast<uint16_t>(target.luns[i]);
    if (std::find(luns.begin(), luns.end(), lun) == luns.end()) {
      out.refusal = NoLunError(*spec, lun, "the target does not report it");
    }
  }
  out.found = fmt::format("{} LUNs", luns.size());
  out.writable = out.refusal.ok();
  out.verdict = out.refusal.ok() ? "see its LUNs" : GetErrorInfo(out.refusal).message;
  out.probe = std::move(probe);
  return out;
}

}  // namespace muster
