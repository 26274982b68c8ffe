#include "agent/backend/transfer.h"

#include <catch2/catch.hpp>

namespace muster {
namespace {

Transfer Begun(IoKind kind, uint32_t bytes) {
  Transfer transfer;
  transfer.Begin({.tag = 3, .bytes = bytes, .kind = kind});
  return transfer;
}

TEST_CASE("transfer: whole at once") {
  IoCompletion out;
  Transfer read = Begun(IoKind::kRead, 4096);
  REQUIRE(read.Ended(4096, 512, true, out));
  CHECK(out.outcome == IoOutcome::kOk);
  CHECK(out.bytes == 4096);
  CHECK(out.tag == 3);
  Transfer trim = Begun(IoKind::kTrim, 4096);
  REQUIRE(trim.Ended(0, 512, true, out));
  CHECK(out.outcome == IoOutcome::kOk);
  CHECK(out.bytes == 4096);
  Transfer flush = Begun(IoKind::kFlush, 4096);
  REQUIRE(flush.Ended(0, 512, true, out));
  CHECK(out.bytes == 0);
}

TEST_CASE("transfer: goes on while there is progress, then is short") {
  IoCompletion out;
  Transfer write = Begun(IoKind::kWrite, 4096);
  REQUIRE_FALSE(write.Ended(1000, 1, true, out));
  CHECK(write.done == 1000);
  REQUIRE_FALSE(write.Ended(1000, 1, true, out));
  REQUIRE(write.Ended(0, 1, true, out));
  CHECK(out.outcome == IoOutcome::kShort);
  CHECK(out.bytes == 2000);
}

TEST_CASE("transfer: an unaligned rest is not asked of O_DIRECT") {
  IoCompletion out;
  Transfer read = Begun(IoKind::kRead, 8192);
  REQUIRE_FALSE(read.Ended(4096, 512, true, out));
  REQUIRE(read.Ended(1000, 512, true, out));
  CHECK(out.outcome == IoOutcome::kShort);
  CHECK(out.bytes == 5096);
}

TEST_CASE("transfer: continuations are bounded and stop at an abort") {
  IoCompletion out;
  Transfer read = Begun(IoKind::kRead, 4096);
  for (int i = 0; i < Transfer::kMaxContinuations; ++i)
    REQUIRE_FALSE(read.Ended(i % 2 == 0 ? -EINTR : 1, 1, true, out));
  REQUIRE(read.Ended(1, 1, true, out));
  CHECK(out.outcome == IoOutcome::kShort);
  CHECK(out.bytes == Transfer::kMaxContinuations / 2 + 1);
  Transfer interrupted = Begun(IoKind::kRead, 4096);
  REQUIRE(interrupted.Ended(-EINTR, 1, false, out));
  CHECK(out.outcome == IoOutcome::kAborted);
  Transfer halfway = Begun(IoKind::kRead, 4096);
  REQUIRE(halfway.Ended(100, 1, false, out));
  CHECK(out.outcome == IoOutcome::kShort);
}

TEST_CASE("transfer: an error after a part keeps the part's bytes") {
  IoCompletion out;
  Transfer write = Begun(IoKind::kWrite, 8192);
  REQUIRE_FALSE(write.Ended(4096, 512, true, out));
  REQUIRE(write.Ended(-ENOSPC, 512, true, out));
  CHECK(out.outcome == IoOutcome::kNoSpace);
  CHECK(out.native_code == ENOSPC);
  CHECK(out.bytes == 4096);
}

}  // namespace
}  // namespace muster
