#pragma once
#include <cstdint>

#include "agent/backend/backend.h"
#include "agent/backend/iscsi/cdb.h"

namespace muster {

// What the commands of an operation depend on. Sizes in bytes unless named blocks.
struct LunGeometry {
  uint16_t lun = 0;
  uint32_t block_bytes = 512;
  uint64_t blocks = 0;
  uint64_t base = 0;              // added to every offset
  uint64_t limit = UINT64_MAX;    // no operation ends beyond it (of offsets without the base)
  uint32_t max_transfer = 0;      // of one READ or WRITE; a multiple of the block
  uint32_t max_unmap_blocks = 0;  // of one UNMAP; 0: it has none
};

// How an operation goes out: `parts` commands, sent at once, together one operation. Or how it ends without one.
struct OpPlan {
  uint32_t parts = 0;       // 0: nothing to send, `outcome` and `err` are its end
  uint32_t wire_bytes = 0;  // less than asked where the LUN ends
  IoOutcome outcome = IoOutcome::kOk;
  int err = 0;
};

// - misaligned or empty: kUnsupported, EINVAL; so is what crosses `limit` of a LUN with a base;
// - UNMAP on a LUN without it: kUnsupported, EOPNOTSUPP;
// - beyond the end: reads kShort with 0 bytes, writes and trims kNoSpace; across it: what there is, and kShort.
OpPlan PlanOp(const IoOp& op, const LunGeometry& lun);

struct PartPlan {
  Cdb cdb;
  uint64_t block = 0;
  uint32_t blocks = 0;
  uint32_t at = 0;     // in the operation's buffer
  uint32_t bytes = 0;  // to transfer; of the LUN for an UNMAP
};
// Part `index` of a plan with parts.
PartPlan PlanPart(const IoOp& op, const LunGeometry& lun, const OpPlan& plan, uint32_t index);

}  // namespace muster
