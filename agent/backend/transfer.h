#pragma once
#include <cerrno>
#include <cstdint>

#include "agent/backend/backend.h"
#include "agent/backend/errno_outcome.h"

namespace muster {

// An operation on its way through a kernel that may end it in parts: what has been transferred, and whether to go on.
// Pure; inline because it runs once an operation.
struct Transfer {
  // Each has made progress or was interrupted before it could; a bound, so that nothing goes round forever.
  static constexpr uint8_t kMaxContinuations = 16;

  IoOp op;
  uint32_t done = 0;  // bytes already transferred
  uint8_t continuations = 0;

  void Begin(const IoOp& next) {
    op = next;
    done = 0;
    continuations = 0;
  }

  // Takes the result of one system call (bytes, or a negative errno). True: the operation has ended and `out` is
  // filled. False: the rest, from `done` on, is to be sent again. `alignment`: of file offsets, 1 if none is needed.
  bool Ended(int32_t result, uint32_t alignment, bool may_continue, IoCompletion& out) {
    const bool moves_bytes = op.kind == IoKind::kRead || op.kind == IoKind::kWrite;
    if (__builtin_expect(result >= 0, 1)) {
      const uint32_t total = done + static_cast<uint32_t>(result);
      if (__builtin_expect(!moves_bytes || total == op.bytes, 1)) {
        out = {op.tag, IoOutcome::kOk, 0, op.kind == IoKind::kFlush ? 0 : op.bytes};
        return true;
      }
      done = total;
      // O_DIRECT ends unaligned only at the end of a file, and cannot go on from there.
      if (result > 0 && total % alignment == 0 && MayContinue(may_continue)) return false;
      out = {op.tag, IoOutcome::kShort, 0, total};
      return true;
    }
    const int err = -result;
    if ((err == EINTR || err == EAGAIN) && MayContinue(may_continue)) return false;
    out = {op.tag, OutcomeOfErrno(err), err, done};
    return true;
  }

 private:
  bool MayContinue(bool allowed) { return allowed && continuations++ < kMaxContinuations; }
};

}  // namespace muster
