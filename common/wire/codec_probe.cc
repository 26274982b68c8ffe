#include "common/wire/codec_probe.h"

#include <algorithm>

#include "common/wire/codec.h"
#include "common/wire/text.h"

namespace muster {
namespace {

// Limits of the rules in agent_link.proto.
constexpr size_t kFactsMax = 64;
constexpr size_t kInquiryMax = 64;
constexpr size_t kIdMax = 256;
constexpr size_t kWwidsMax = 16;
constexpr size_t kTextMax = 4096;

void Encode(const ProbedLun& from, v1::ProbedLun& to) {
  to.set_lun(from.lun);
  to.set_used(from.used);
  to.set_vendor(WireText(from.vendor, kInquiryMax));
  to.set_product(WireText(from.product, kInquiryMax));
  to.set_revision(WireText(from.revision, kInquiryMax));
  to.set_serial(WireText(from.serial, kIdMax));
  for (size_t i = 0; i < std::min(from.wwids.size(), kWwidsMax); ++i) to.add_wwids(WireText(from.wwids[i], kIdMax));
  to.set_size(from.size);
  to.set_block(from.block);
  to.set_physical_block(from.physical_block);
  if (from.write_protected) to.set_write_protected(*from.write_protected);
  if (from.write_cache) to.set_write_cache(*from.write_cache);
  if (from.fua) to.set_fua(*from.fua);
  to.set_unmap(from.unmap);
  to.set_reads_zeroes(from.reads_zeroes);
  to.set_max_unmap(from.max_unmap);
  to.set_max_unmap_ranges(from.max_unmap_ranges);
  to.set_unmap_granularity(from.unmap_granularity);
  to.set_max_transfer(from.max_transfer);
  to.set_optimal_transfer(from.optimal_transfer);
  to.set_found(WireText(from.found, kTextMax));
  if (!from.refusal.ok()) *to.mutable_refusal() = ToProto(from.refusal);
}

ProbedLun Decode(const v1::ProbedLun& from) {
  ProbedLun to;
  to.lun = from.lun();
  to.used = from.used();
  to.vendor = from.vendor();
  to.product = from.product();
  to.revision = from.revision();
  to.serial = from.serial();
  to.wwids.assign(from.wwids().begin(), from.wwids().end());
  to.size = from.size();
  to.block = from.block();
  to.physical_block = from.physical_block();
  if (from.has_write_protected()) to.write_protected = from.write_protected();
  if (from.has_write_cache()) to.write_cache = from.write_cache();
  if (from.has_fua()) to.fua = from.fua();
  to.unmap = from.unmap();
  to.reads_zeroes = from.reads_zeroes();
  to.max_unmap = from.max_unmap();
  to.max_unmap_ranges = from.max_unmap_ranges();
  to.unmap_granularity = from.unmap_granularity();
  to.max_transfer = from.max_transfer();
  to.optimal_transfer = from.optimal_transfer();
  to.found = from.found();
  if (from.has_refusal()) to.refusal = FromProto(from.refusal());
  return to;
}

}  // namespace

v1::TargetProbe ToProto(const TargetProbe& probe) {
  v1::TargetProbe out;
  ToProto(probe.session, kFactsMax, out.mutable_session());
  out.set_luns_reported(probe.luns_reported);
  const size_t told = std::min(probe.luns.size(), kMostProbedLuns);
  for (size_t i = 0; i < told; ++i) Encode(probe.luns[i], *out.add_luns());
  return out;
}

TargetProbe FromProto(const v1::TargetProbe& probe) {
  TargetProbe out;
  out.session = FromProto(probe.session());
  out.luns_reported = probe.luns_reported();
  for (const v1::ProbedLun& lun : probe.luns()) out.luns.push_back(Decode(lun));
  return out;
}

}  // namespace muster
