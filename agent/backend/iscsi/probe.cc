#include "agent/backend/iscsi/probe.h"

#include <algorithm>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "fmt/format.h"

namespace muster {
namespace {

constexpr Nanos kLogoutPatience = 100 * kMillisecond;

}  // namespace

IscsiProbe::IscsiProbe(const IscsiConnectionSpec& spec) : spec_(spec), session_(spec_), inspector_(spec_, session_) {}

IscsiProbe::~IscsiProbe() {
  session_.Logout(SteadyClock::Get().Now() + kLogoutPatience);
}

absl::StatusOr<std::unique_ptr<IscsiProbe>> IscsiProbe::Login(const IscsiConnectionSpec& spec, Nanos deadline) {
  std::unique_ptr<IscsiProbe> probe(new IscsiProbe(spec));
  MUSTER_ASSIGN_OR_RETURN(const std::string portal, ResolvePortal(probe->spec_, deadline));
  MUSTER_RETURN_IF_ERROR(probe->session_.Start(portal));
  MUSTER_RETURN_IF_ERROR(probe->inspector_.WaitForLogin(deadline));
  return probe;
}

absl::StatusOr<std::vector<uint16_t>> IscsiProbe::ReportLuns(Nanos deadline) {
  return inspector_.ReportLuns(deadline);
}

absl::StatusOr<IscsiLunFacts> IscsiProbe::Inspect(uint16_t lun, Nanos deadline) {
  return inspector_.Inspect(lun, deadline);
}

absl::Status IscsiProbe::Read(const IscsiLunFacts& facts, std::span<const IscsiInspector::Range> ranges,
                              const IscsiInspector::Sink& sink, Nanos deadline) {
  return inspector_.Read(facts, ranges, sink, deadline);
}

std::vector<std::pair<std::string, std::string>> IscsiProbe::Negotiated() const {
  return DescribeSession(spec_, session_);
}

std::vector<std::pair<std::string, std::string>> IscsiProbe::OtherKeys() const {
  std::vector<std::pair<std::string, std::string>> out;
  // RFC 7143 13; those that DescribeSession leaves out.
  for (const char* key : {"MaxConnections", "DefaultTime2Wait", "DefaultTime2Retain", "DataPDUInOrder",
                          "DataSequenceInOrder", "TargetAlias"}) {
    std::string value = session_.Negotiated(key);
    if (!value.empty()) out.emplace_back(key, std::move(value));
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> DescribeSession(const IscsiConnectionSpec& spec,
                                                                 const IscsiSession& session) {
  const auto or_default = [&](std::string_view key, std::string_view otherwise) {
    const std::string value = session.Negotiated(key);
    return value.empty() ? std::string(otherwise) : value;
  };
  const IscsiSession::Windows windows = session.windows();
  // Defaults are those of RFC 7143 13 for keys the target did not answer.
  return {{"portal", session.portal()},
          {"target", spec.target},
          {"target portal group", or_default("TargetPortalGroupTag", "not told")},
          {"initiator", spec.initiator},
          {"ISID", session.isid()},
          {"source", session.source()},
          {"transport", spec.transport == IscsiTransport::kTcp ? "tcp" : "iser"},
          {"authentication", spec.user.empty()          ? "none"
                             : spec.mutual_user.empty() ? "CHAP"
                                                        : "mutual CHAP"},
          {"HeaderDigest", or_default("HeaderDigest", "None")},
          {"DataDigest", or_default("DataDigest", "None")},
          {"MaxRecvDataSegmentLength of the target", or_default("MaxRecvDataSegmentLength", "8192")},
          {"FirstBurstLength", or_default("FirstBurstLength", "65536")},
          {"MaxBurstLength", or_default("MaxBurstLength", "262144")},
          // A "No" of ours need not be answered (RFC 7143 6.2.2), and over iSER we say so.
          {"ImmediateData", or_default("ImmediateData", spec.transport == IscsiTransport::kTcp ? "Yes" : "No")},
          {"InitialR2T", or_default("InitialR2T", "Yes")},
          {"MaxOutstandingR2T", or_default("MaxOutstandingR2T", "1")},
          {"ErrorRecoveryLevel", or_default("ErrorRecoveryLevel", "0")},
          {"command window", fmt::format("{}", windows.last)},
          {"redirects", fmt::format("{}", session.redirects())}};
}

std::vector<std::pair<std::string, std::string>> DescribeLun(const IscsiLunFacts& facts, const std::string& prefix) {
  std::vector<std::pair<std::string, std::string>> out;
  const auto add = [&](std::string_view name, std::string value) {
    out.emplace_back(fmt::format("{} {}", prefix, name), std::move(value));
  };
  const uint32_t block = facts.capacity.block_bytes;
  add("size", fmt::format("{}", facts.bytes()));
  add("block", fmt::format("{}", block));
  add("physical block", fmt::format("{}", uint64_t{block} << facts.capacity.physical_exponent));
  add("product", fmt::format("{} {} {}", facts.inquiry.vendor, facts.inquiry.product, facts.inquiry.revision));
  add("serial", facts.serial);
  if (!facts.device_ids.empty()) add("device id", facts.device_ids.front());
  add("max transfer", facts.limits.max_transfer_blocks == 0
                          ? std::string("not reported")
                          : fmt::format("{}", uint64_t{facts.limits.max_transfer_blocks} * block));
  add("write cache", !facts.mode.has_caching ? "not reported" : facts.mode.write_cache ? "on" : "off");
  add("FUA", !facts.has_mode ? "not reported" : facts.mode.dpofua ? "yes" : "no");
  add("write protected", !facts.has_mode ? "not reported" : facts.mode.write_protected ? "yes" : "no");
  add("unmap", facts.provisioning.unmap || facts.capacity.provisioned ? "yes" : "no");
  if (facts.limits.max_unmap_blocks != 0) {
    add("max unmap", fmt::format("{}", uint64_t{facts.limits.max_unmap_blocks} * block));
  }
  return out;
}

}  // namespace muster
