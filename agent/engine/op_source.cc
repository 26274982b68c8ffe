#include "agent/engine/op_source.h"

#include <algorithm>
#include <cmath>

namespace muster {
namespace {

// Share 0..1 as a threshold on 63-bit draws; exact at both ends.
uint64_t Threshold(double share) {
  if (share <= 0) return 0;
  if (share >= 1) return uint64_t{1} << 63;
  return static_cast<uint64_t>(std::ldexp(share, 63));
}

}  // namespace

OpSource::OpSource(const Workload& workload, const StreamExtent& extent, uint64_t seed)
    : seed_(seed),
      trim_below_(Threshold(workload.trim)),
      read_below_(Threshold(workload.trim + (1.0 - workload.trim) * workload.read)),
      block_(static_cast<uint32_t>(workload.block)),
      slot_(extent.slot),
      flush_every_(workload.flush_every),
      random_(workload.pattern == Pattern::kRandom) {
  begin_ = random_ ? extent.area_offset : extent.slice_offset;
  blocks_ = (random_ ? extent.area_length : extent.slice_length) / workload.block;
}

uint64_t StreamSeed(uint64_t seed, SeedPurpose purpose, uint32_t initiator, uint32_t stream) {
  return MixSeed(seed, static_cast<uint64_t>(purpose), initiator, stream);
}

FillSource::FillSource(const FillSpec& spec) : extents_(spec.extents), block_(spec.block), passes_left_(spec.passes) {
  for (const FillExtent& extent : extents_) {
    bytes_total_ += extent.length * spec.passes;
    if (extent.length > 0 && spec.passes > 0) flush_slots_.push_back(extent.slot);
  }
  std::sort(flush_slots_.begin(), flush_slots_.end());
  flush_slots_.erase(std::unique(flush_slots_.begin(), flush_slots_.end()), flush_slots_.end());
}

bool FillSource::Next(PlannedOp& op) {
  while (passes_left_ > 0 && extent_ < extents_.size() && position_ == extents_[extent_].length) {
    ++extent_;
    position_ = 0;
  }
  if (passes_left_ > 0 && extent_ == extents_.size()) {
    if (in_flight_ > 0) return false;
    extent_ = 0;
    if (bytes_total_ == 0) {
      passes_left_ = 0;
    } else if (--passes_left_ > 0) {
      return Next(op);
    }
  }
  if (passes_left_ == 0) {
    if (flush_next_ == flush_slots_.size()) return false;
    op = {.offset = 0, .bytes = 0, .slot = flush_slots_[flush_next_++], .kind = OpKind::kFlush};
    ++in_flight_;
    return true;
  }
  const FillExtent& extent = extents_[extent_];
  const uint64_t bytes = std::min(block_, extent.length - position_);
  op = {.offset = extent.offset + position_,
        .bytes = static_cast<uint32_t>(bytes),
        .slot = extent.slot,
        .kind = OpKind::kWrite};
  position_ += bytes;
  ++in_flight_;
  return true;
}

void FillSource::Done(const PlannedOp& op) {
  --in_flight_;
  if (op.kind == OpKind::kWrite) bytes_done_ += op.bytes;
}

}  // namespace muster
