#include <sys/prctl.h>

#include <algorithm>

#include "agent/backend/iscsi/errors.h"
#include "agent/backend/iscsi/spec_of.h"
#include "agent/target/each_lun.h"
#include "agent/target/iscsi_lun.h"
#include "agent/target/own_address.h"
#include "agent/target/parts.h"
#include "common/base/status.h"
#include "fmt/format.h"

namespace muster {
namespace {

using NameValues = std::vector<std::pair<std::string, std::string>>;

constexpr size_t kPortalsTold = 24;          // of those of a campaign, at most 64
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

// One portal of the target, and what its login told.
struct PortalSeen {
  std::string portal;  // as the campaign names it
  IscsiConnectionSpec spec;
  absl::Status refusal;
  NameValues session;
  std::vector<uint16_t> luns;
};

// Logs in through one portal.
absl::Status See(PortalSeen& seen, Nanos deadline) {
  const Nanos answered_by = std::min(deadline, SteadyClock::Get().Now() + seen.spec.login_timeout);
  MUSTER_ASSIGN_OR_RETURN(const auto session, IscsiProbe::Login(seen.spec, answered_by));
  MUSTER_ASSIGN_OR_RETURN(seen.luns, session->ReportLuns(answered_by));
  seen.session = session->Negotiated();
  for (auto& key : session->OtherKeys()) seen.session.push_back(std::move(key));
  return absl::OkStatus();
}

// Every portal as initiator 0. `fault`: the target itself is none.
std::vector<PortalSeen> SeePortals(const IscsiTarget& target, Nanos deadline, absl::Status& fault) {
  std::vector<PortalSeen> portals;
  std::vector<IscsiConnectionSpec> specs;
  const uint16_t first = ExtraQualifier();
  for (const std::string& portal : target.portals) {
    IscsiTarget one = target;
    one.portals = {portal};
    const auto spec = SpecOf(one, 0, 0, ExtraQualifier(first, portals.size()));
    fault = spec.status();
    if (!spec.ok()) return {};
    specs.push_back(*spec);
    portals.push_back({.portal = portal, .spec = *spec});
  }
  const auto see = [&](size_t i) {
    portals[i].refusal = See(portals[i], deadline);
    return absl::OkStatus();
  };
  fault = ForEachLun(specs, "logging in", deadline, see);
  return portals;
}

// The error of the first portal, with those of the others in it.
absl::Status NoneAnswers(const std::vector<PortalSeen>& portals) {
  if (portals.size() == 1) return portals.front().refusal;
  ErrorInfo info = GetErrorInfo(portals.front().refusal);
  info.message += fmt::format("; none of the {} portals can be used", portals.size());
  for (size_t i = 1; i < portals.size() && i < kPortalsTold; ++i) {
    info.message += fmt::format("; {}: {}", portals[i].portal, FormatError(portals[i].refusal));
  }
  return MakeError(portals.front().refusal.code(), std::move(info));
}

// How many can be used; of each why not, or in what its login differs from that of `first`.
void TellPortals(const std::vector<PortalSeen>& portals, const PortalSeen& first, NameValues& out) {
  const auto usable = std::count_if(portals.begin(), portals.end(), [](const PortalSeen& p) { return p.refusal.ok(); });
  std::string told =
      fmt::format("{} of {} can be used; the LUNs are told as seen by {}", usable, portals.size(), first.portal);
  if (portals.size() > kPortalsTold)
    told += fmt::format("; the first {} told, those that cannot be used before others", kPortalsTold);
  out.emplace_back("portals", std::move(told));
  size_t left = kPortalsTold;
  for (const bool good : {false, true}) {
    for (const PortalSeen& seen : portals) {
      if (seen.refusal.ok() != good || left == 0) continue;
      --left;
      std::string text = good ? "answers" : "CANNOT BE USED: " + FormatError(seen.refusal);
      for (size_t i = 0; good && i < seen.session.size(); ++i) {
        const auto& [name, value] = seen.session[i];
        if (name == "source" || name == "ISID") continue;
        const bool same = std::find(first.session.begin(), first.session.end(), seen.session[i]) != first.session.end();
        if (!same || name == "target portal group") text += fmt::format("; {} {}", name, value);
      }
      if (good && seen.luns != first.luns) text += fmt::format("; {} LUNs reported", seen.luns.size());
      out.emplace_back("portal " + seen.portal, std::move(text));
    }
  }
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
  std::vector<PortalSeen> portals = SeePortals(target, deadline, out.refusal);
  if (!out.refusal.ok()) return out;
  const auto first = std::find_if(portals.begin(), portals.end(), [](const PortalSeen& p) { return p.refusal.ok(); });
  if (first == portals.end()) {
    out.refusal = NoneAnswers(portals);
    return out;
  }
  *spec = first->spec;
  const std::vector<uint16_t> luns = first->luns;
  out.place = PlaceOf(*spec);
  probe.session = first->session;
  if (portals.size() > 1) TellPortals(portals, *first, probe.session);
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
  std::vector<IscsiConnectionSpec> specs;
  for (size_t i = 0; i < luns.size() && i < kMostProbedLuns; ++i) {
    specs.push_back(*spec);
    specs.back().luns = {luns[i]};
    specs.back().isid_qualifier = ExtraQualifier(spec->isid_qualifier, i);
  }
  probe.luns.resize(specs.size());
  const auto look = [&](size_t i) {
    uint64_t needed = 0;
    const bool used = needed_of(luns[i], needed);
    probe.luns[i] = Look(specs[i], used, needed, target.overwrite, deadline);
    return absl::OkStatus();  // what is wrong with a LUN is told of it
  };
  out.refusal = ForEachLun(specs, "looking", deadline, look);
  for (const ProbedLun& lun : probe.luns) out.size += lun.size;
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
