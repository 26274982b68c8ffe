#include "agent/backend/iscsi/op_plan.h"

#include <algorithm>
#include <cerrno>

namespace muster {
namespace {

// Bytes of the LUN one command covers.
uint64_t Step(const IoOp& op, const LunGeometry& lun) {
  return op.kind == IoKind::kTrim ? uint64_t{lun.max_unmap_blocks} * lun.block_bytes : lun.max_transfer;
}

}  // namespace

OpPlan PlanOp(const IoOp& op, const LunGeometry& lun) {
  if (op.kind == IoKind::kFlush) return {.parts = 1};
  if (op.bytes > lun.limit || op.offset > lun.limit - op.bytes) return {0, 0, IoOutcome::kUnsupported, EINVAL};
  const uint64_t start = lun.base + op.offset;
  const uint32_t mask = lun.block_bytes - 1;
  if (start < op.offset || op.bytes == 0 || ((start | op.bytes) & mask) != 0) {
    return {0, 0, IoOutcome::kUnsupported, EINVAL};
  }
  if (op.kind == IoKind::kTrim && lun.max_unmap_blocks == 0) return {0, 0, IoOutcome::kUnsupported, EOPNOTSUPP};
  const uint64_t size = lun.blocks * lun.block_bytes;
  if (start >= size) {
    if (op.kind == IoKind::kRead) return {0, 0, IoOutcome::kShort, 0};
    return {0, 0, IoOutcome::kNoSpace, ENOSPC};
  }
  OpPlan plan;
  plan.wire_bytes = static_cast<uint32_t>(std::min<uint64_t>(op.bytes, size - start));
  const uint64_t step = Step(op, lun);
  plan.parts = static_cast<uint32_t>((plan.wire_bytes + step - 1) / step);
  return plan;
}

PartPlan PlanPart(const IoOp& op, const LunGeometry& lun, const OpPlan& plan, uint32_t index) {
  PartPlan part;
  if (op.kind == IoKind::kFlush) {
    part.cdb = SynchronizeCacheCdb(lun.blocks);
    return part;
  }
  const uint64_t step = Step(op, lun);
  part.at = static_cast<uint32_t>(step * index);
  part.bytes = static_cast<uint32_t>(std::min<uint64_t>(step, plan.wire_bytes - part.at));
  part.block = (lun.base + op.offset + part.at) / lun.block_bytes;
  part.blocks = part.bytes / lun.block_bytes;
  const bool fua = (op.flags & kIoFua) != 0;
  switch (op.kind) {
    case IoKind::kRead:
      part.cdb = ReadCdb(part.block, part.blocks, fua);
      break;
    case IoKind::kWrite:
      part.cdb = WriteCdb(part.block, part.blocks, fua);
      break;
    case IoKind::kTrim:
      part.cdb = UnmapCdb();
      break;
    case IoKind::kFlush:
      break;
  }
  return part;
}

}  // namespace muster
