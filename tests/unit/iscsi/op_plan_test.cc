// How operations become commands.
#include "agent/backend/iscsi/op_plan.h"

#include <catch2/catch.hpp>
#include <cerrno>

namespace muster {
namespace {

constexpr uint64_t kMiB = 1 << 20;

LunGeometry Lun(uint32_t block = 512) {
  return {.block_bytes = block, .blocks = 64 * kMiB / block, .max_transfer = kMiB, .max_unmap_blocks = 1024};
}

IoOp Op(IoKind kind, uint64_t offset, uint32_t bytes) {
  return {.offset = offset, .bytes = bytes, .kind = kind};
}

TEST_CASE("parts cover an operation without gap or overlap") {
  for (const uint32_t block : {512u, 4096u}) {
    const LunGeometry lun = Lun(block);
    for (const IoKind kind : {IoKind::kRead, IoKind::kWrite, IoKind::kTrim}) {
      for (const uint32_t bytes : {block, 65536u, static_cast<uint32_t>(kMiB), static_cast<uint32_t>(kMiB) + block,
                                   static_cast<uint32_t>(8 * kMiB)}) {
        const IoOp op = Op(kind, 4096, bytes);
        const OpPlan plan = PlanOp(op, lun);
        REQUIRE(plan.parts > 0);
        CHECK(plan.wire_bytes == bytes);
        uint32_t at = 0;
        for (uint32_t i = 0; i < plan.parts; ++i) {
          const PartPlan part = PlanPart(op, lun, plan, i);
          CHECK(part.at == at);
          CHECK(part.block == (4096 + at) / block);
          CHECK(part.blocks * uint64_t{block} == part.bytes);
          CHECK(part.bytes <= (kind == IoKind::kTrim ? 1024 * block : kMiB));
          at += part.bytes;
        }
        CHECK(at == bytes);
      }
    }
  }
}

TEST_CASE("FUA is in the command, and a flush is one") {
  IoOp op = Op(IoKind::kWrite, 0, 4096);
  op.flags = kIoFua;
  CHECK(PlanPart(op, Lun(), PlanOp(op, Lun()), 0).cdb.bytes[1] == 0x08);
  const IoOp flush = Op(IoKind::kFlush, 7, 0);
  CHECK(PlanOp(flush, Lun()).parts == 1);
  CHECK(PlanPart(flush, Lun(), PlanOp(flush, Lun()), 0).cdb.bytes[0] == 0x35);
}

TEST_CASE("what cannot be done ends without a command") {
  const LunGeometry lun = Lun(4096);
  for (const auto& [offset, bytes] : {std::pair<uint64_t, uint32_t>{512, 4096}, {0, 512}, {0, 0}}) {
    const OpPlan plan = PlanOp(Op(IoKind::kRead, offset, bytes), lun);
    CHECK(plan.parts == 0);
    CHECK(plan.outcome == IoOutcome::kUnsupported);
    CHECK(plan.err == EINVAL);
  }
  LunGeometry thick = lun;
  thick.max_unmap_blocks = 0;
  CHECK(PlanOp(Op(IoKind::kTrim, 0, 4096), thick).err == EOPNOTSUPP);
}

TEST_CASE("the end of the LUN, and of the usable part of it") {
  const LunGeometry lun = Lun();
  CHECK(PlanOp(Op(IoKind::kRead, 64 * kMiB, 4096), lun).outcome == IoOutcome::kShort);
  CHECK(PlanOp(Op(IoKind::kWrite, 64 * kMiB, 4096), lun).outcome == IoOutcome::kNoSpace);
  CHECK(PlanOp(Op(IoKind::kRead, 64 * kMiB - 4096, 8192), lun).wire_bytes == 4096);
  CHECK(PlanOp(Op(IoKind::kRead, UINT64_MAX - 511, 512), lun).parts == 0);
  LunGeometry part = lun;
  part.base = kMiB;
  part.limit = 62 * kMiB;
  const IoOp last = Op(IoKind::kRead, 62 * kMiB - 4096, 4096);
  REQUIRE(PlanOp(last, part).parts == 1);
  CHECK(PlanPart(last, part, PlanOp(last, part), 0).block == (63 * kMiB - 4096) / 512);
  for (const uint64_t offset : {62 * kMiB - 2048, 62 * kMiB, UINT64_MAX - 4095, uint64_t{0} - kMiB}) {
    CHECK(PlanOp(Op(IoKind::kWrite, offset, 4096), part).err == EINVAL);
  }
}

}  // namespace
}  // namespace muster
