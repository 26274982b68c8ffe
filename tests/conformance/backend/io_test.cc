// What every backend does with operations: content, order, depth, trim, flush, errors.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>

#include "agent/backend/uring_backend.h"
#include "common/base/rng.h"
#include "common/base/status.h"
#include "tests/conformance/backend/environment.h"
#include "tests/support/loop_fs.h"

namespace muster::test {
namespace {

constexpr uint64_t kSize = 4 << 20;

void FillRandom(uint8_t* begin, size_t bytes, uint64_t seed) {
  Rng rng(seed);
  for (size_t i = 0; i < bytes; i += 8) {
    const uint64_t word = rng.Next();
    std::memcpy(begin + i, &word, 8);
  }
}

TEST_CASE("a read returns what was written") {
  FOR_EACH_ENVIRONMENT(env);
  auto rig = env.Make(16, kSize);
  for (const uint32_t bytes : {4096u, 65536u}) {
    std::vector<IoOp> writes;
    for (uint32_t i = 0; i < 16; ++i) {
      FillRandom(rig->buffer(i), bytes, i + bytes);
      writes.push_back(rig->Op(IoKind::kWrite, uint64_t{i} * 3 * bytes % kSize, bytes, i));
      if (i % 2 == 0) writes.back().flags = kIoFua;
    }
    for (const IoCompletion& c : rig->Run(writes)) {
      REQUIRE(c.outcome == IoOutcome::kOk);
      REQUIRE(c.bytes == bytes);
    }
    for (uint32_t i = 0; i < 16; ++i) std::memset(rig->buffer(i), 0xEE, bytes);
    std::vector<IoOp> reads = writes;
    for (IoOp& op : reads) {
      op.kind = IoKind::kRead;
      op.flags = 0;
    }
    std::reverse(reads.begin(), reads.end());
    for (const IoCompletion& c : rig->Run(reads)) {
      REQUIRE(c.outcome == IoOutcome::kOk);
      REQUIRE(c.bytes == bytes);
    }
    if (!env.has_content()) continue;
    std::vector<uint8_t> expected(bytes);
    for (uint32_t i = 0; i < 16; ++i) {
      FillRandom(expected.data(), bytes, i + bytes);
      CHECK(std::memcmp(expected.data(), rig->buffer(i), bytes) == 0);
    }
  }
  CHECK(rig->backend().Close());
}

TEST_CASE("a buffer outside the registered regions works as well") {
  FOR_EACH_ENVIRONMENT(env);
  auto rig = env.Make(2, kSize);
  auto* own = static_cast<uint8_t*>(std::aligned_alloc(4096, 4096));
  FillRandom(own, 4096, 99);
  IoOp write = rig->Op(IoKind::kWrite, 8192, 4096);
  write.buffer = own;
  CHECK(rig->RunOne(write).outcome == IoOutcome::kOk);
  IoOp read = rig->Op(IoKind::kRead, 8192, 4096);
  CHECK(rig->RunOne(read).outcome == IoOutcome::kOk);
  if (env.has_content()) CHECK(std::memcmp(own, rig->buffer(0), 4096) == 0);
  read.buffer = own;
  read.buffer_index = 12345;
  CHECK(rig->RunOne(read).outcome == IoOutcome::kOk);
  std::free(own);
}

TEST_CASE("every tag comes back exactly once, whatever the batches") {
  FOR_EACH_ENVIRONMENT(env);
  constexpr uint32_t kDepth = 48;
  constexpr uint64_t kOps = 4000;
  auto rig = env.Make(kDepth, kSize);
  Backend& backend = rig->backend();
  const Clock& clock = SteadyClock::Get();
  Rng rng(20240611);
  std::vector<uint8_t> seen(kOps, 0);
  std::vector<uint32_t> free_buffers(kDepth);
  for (uint32_t i = 0; i < kDepth; ++i) free_buffers[i] = i;
  std::vector<uint32_t> buffer_of(kOps);
  std::vector<IoCompletion> out(kDepth);
  uint64_t submitted = 0;
  uint64_t completed = 0;
  const Nanos deadline = clock.Now() + kMinute;
  while (completed < kOps) {
    REQUIRE(clock.Now() < deadline);
    std::vector<IoOp> batch;
    const uint64_t want = std::min<uint64_t>({rng.Below(kDepth + 1), kOps - submitted, free_buffers.size()});
    for (uint64_t i = 0; i < want; ++i) {
      const uint64_t dice = rng.Below(1000);
      const IoKind kind = dice < 5     ? IoKind::kFlush
                          : dice < 15  ? IoKind::kTrim
                          : dice < 500 ? IoKind::kRead
                                       : IoKind::kWrite;
      IoOp op = rig->Op(kind, rng.Below(kSize / 4096) * 4096, 4096, free_buffers[free_buffers.size() - 1 - i]);
      op.tag = submitted + i;
      batch.push_back(op);
    }
    const size_t accepted = backend.Submit(batch, clock.Now());
    REQUIRE(accepted <= batch.size());
    for (size_t i = 0; i < accepted; ++i) {
      buffer_of[submitted + i] = free_buffers.back();
      free_buffers.pop_back();
    }
    submitted += accepted;
    REQUIRE(backend.outstanding() == submitted - completed);
    const size_t room = 1 + rng.Below(kDepth);
    const size_t n = backend.Reap({out.data(), room}, clock.Now());
    REQUIRE(n <= room);
    for (size_t i = 0; i < n; ++i) {
      REQUIRE(out[i].tag < submitted);
      REQUIRE(++seen[out[i].tag] == 1);
      REQUIRE(out[i].outcome == IoOutcome::kOk);
      free_buffers.push_back(buffer_of[out[i].tag]);
    }
    completed += n;
    REQUIRE(backend.outstanding() == submitted - completed);
    if (n == 0 && backend.outstanding() > 0) backend.WaitUntil(deadline);
  }
  CHECK(backend.Reap(out, clock.Now()) == 0);
  CHECK(std::all_of(seen.begin(), seen.end(), [](uint8_t times) { return times == 1; }));
}

TEST_CASE("a full queue takes a prefix and is no error") {
  FOR_EACH_ENVIRONMENT(env);
  for (const uint32_t depth : {1u, 5u, 64u}) {
    auto rig = env.Make(depth, kSize);
    Backend& backend = rig->backend();
    const Clock& clock = SteadyClock::Get();
    CHECK(backend.Describe().max_outstanding == depth);
    std::vector<IoOp> ops;
    for (uint32_t i = 0; i < depth + 3; ++i) {
      ops.push_back(rig->Op(IoKind::kRead, 4096 * i, 4096, i % depth));
      ops.back().tag = i;
    }
    REQUIRE(backend.Submit(ops, clock.Now()) == depth);
    CHECK(backend.outstanding() == depth);
    CHECK(backend.Submit(std::span(ops).subspan(depth), clock.Now()) == 0);
    REQUIRE(rig->Collect(1).at(0).outcome == IoOutcome::kOk);
    CHECK(backend.Submit(std::span(ops).subspan(depth), clock.Now()) == 1);
    std::vector<IoCompletion> rest = rig->Collect(depth);
    for (const IoCompletion& c : rest) CHECK(c.outcome == IoOutcome::kOk);
    CHECK(backend.outstanding() == 0);
    CHECK(backend.Submit({}, clock.Now()) == 0);
  }
}

TEST_CASE("flush ends well with writes around it") {
  FOR_EACH_ENVIRONMENT(env);
  auto rig = env.Make(4, kSize);
  IoOp flush = rig->Op(IoKind::kFlush, 0, 0, 2);
  flush.buffer = nullptr;
  const auto ended = rig->Run({rig->Op(IoKind::kWrite, 0, 4096, 0), rig->Op(IoKind::kWrite, 4096, 4096, 1), flush});
  for (const IoCompletion& c : ended) {
    CHECK(c.outcome == IoOutcome::kOk);
    CHECK(c.bytes == (c.tag == 2 ? 0 : 4096));
  }
}

TEST_CASE("a trimmed range reads as zeroes, its neighbours stay") {
  FOR_EACH_ENVIRONMENT(env);
  auto rig = env.Make(4, kSize);
  std::memset(rig->buffer(0), 0xAB, Rig::kBuffer);
  REQUIRE(rig->RunOne(rig->Op(IoKind::kWrite, 65536, 65536)).outcome == IoOutcome::kOk);
  IoOp trim = rig->Op(IoKind::kTrim, 65536 + 16384, 16384);
  trim.buffer = nullptr;
  const IoCompletion trimmed = rig->RunOne(trim);
  REQUIRE(trimmed.outcome == IoOutcome::kOk);
  CHECK(trimmed.bytes == 16384);
  REQUIRE(rig->RunOne(rig->Op(IoKind::kRead, 65536, 65536, 1)).outcome == IoOutcome::kOk);
  if (!env.has_content()) return;
  const uint8_t* got = rig->buffer(1);
  CHECK(std::all_of(got, got + 16384, [](uint8_t b) { return b == 0xAB; }));
  CHECK(std::all_of(got + 16384, got + 32768, [](uint8_t b) { return b == 0; }));
  CHECK(std::all_of(got + 32768, got + 65536, [](uint8_t b) { return b == 0xAB; }));
}

TEST_CASE("reading across or beyond the end is a short transfer") {
  FOR_EACH_ENVIRONMENT(env);
  if (!env.checks_bounds()) return;
  auto rig = env.Make(4, kSize);
  const IoCompletion beyond = rig->RunOne(rig->Op(IoKind::kRead, rig->size() + 65536, 4096));
  CHECK(beyond.outcome == IoOutcome::kShort);
  CHECK(beyond.bytes == 0);
  const IoCompletion across = rig->RunOne(rig->Op(IoKind::kRead, rig->size() - 4096, 8192));
  CHECK(across.outcome == IoOutcome::kShort);
  CHECK(across.bytes == 4096);
  const IoCompletion write = rig->RunOne(rig->Op(IoKind::kWrite, rig->size(), 4096));
  CHECK(write.outcome == (env.grows() ? IoOutcome::kOk : IoOutcome::kNoSpace));
}

TEST_CASE("a file whose end is not aligned gives a short read") {
  FOR_EACH_ENVIRONMENT(env);
  if (!env.grows()) return;
  auto rig = env.Make(4, kSize);
  REQUIRE(ftruncate(rig->fd(), kSize - 4096 + 1000) == 0);
  const IoCompletion c = rig->RunOne(rig->Op(IoKind::kRead, kSize - 8192, 8192));
  CHECK(c.outcome == IoOutcome::kShort);
  CHECK(c.bytes == 4096 + 1000);
}

TEST_CASE("a misaligned O_DIRECT operation is unsupported") {
  FOR_EACH_ENVIRONMENT(env);
  if (!env.checks_alignment()) return;
  auto rig = env.Make(4, kSize);
  for (const IoKind kind : {IoKind::kRead, IoKind::kWrite}) {
    CHECK(rig->RunOne(rig->Op(kind, 7, 4096)).outcome == IoOutcome::kUnsupported);
    const IoCompletion c = rig->RunOne(rig->Op(kind, 0, 100));
    CHECK(c.outcome == IoOutcome::kUnsupported);
    CHECK(c.native_code == EINVAL);
    CHECK(c.bytes == 0);
  }
}

TEST_CASE("an operation on an object that is not there fails alone") {
  FOR_EACH_ENVIRONMENT(env);
  if (env.driven_by_time()) return;
  auto rig = env.Make(8, kSize);
  std::vector<IoOp> ops;
  for (uint32_t i = 0; i < 8; ++i) ops.push_back(rig->Op(IoKind::kRead, 4096 * i, 4096, i));
  ops[0].object = 1;
  ops[5].object = 77;
  for (const IoCompletion& c : rig->Run(ops)) {
    const bool bad = c.tag == 0 || c.tag == 5;
    CHECK(c.outcome == (bad ? IoOutcome::kOther : IoOutcome::kOk));
    CHECK(c.native_code == (bad ? EBADF : 0));
  }
  CHECK(rig->backend().Close());
}

TEST_CASE("an object with a base is shifted, and nothing beyond its size is touched") {
  FOR_EACH_ENVIRONMENT(env);
  if (env.driven_by_time() || !env.has_descriptor()) return;
  constexpr uint64_t kBase = 1 << 20;
  constexpr uint64_t kUsable = kSize - 2 * kBase;
  auto whole = env.Make(2, kSize);
  const auto read_whole = [&](uint64_t offset) {
    REQUIRE(whole->RunOne(whole->Op(IoKind::kRead, offset, 4096)).outcome == IoOutcome::kOk);
    return std::vector<uint8_t>(whole->buffer(0), whole->buffer(0) + 4096);
  };
  for (uint64_t at = 0; at < kSize; at += Rig::kBuffer) {
    std::memset(whole->buffer(1), 0x11, Rig::kBuffer);
    REQUIRE(whole->RunOne(whole->Op(IoKind::kWrite, at, Rig::kBuffer, 1)).outcome == IoOutcome::kOk);
  }
  const auto backend = MakeUringBackend();
  const BackendObject part{.fd = whole->fd(), .size = kUsable, .base = kBase, .logical_block = 512};
  REQUIRE(backend->Open({&part, 1}, whole->regions(), {.depth = 2}, kNever).ok());
  const auto run = [&](IoKind kind, uint64_t offset, uint32_t bytes) {
    std::memset(whole->buffer(1), 0x22, Rig::kBuffer);
    const IoOp op = whole->Op(kind, offset, bytes, 1);
    const Nanos deadline = SteadyClock::Get().Now() + kMinute;
    REQUIRE(backend->Submit({&op, 1}, 0) == 1);
    IoCompletion c;
    while (backend->Reap({&c, 1}, 0) == 0) {
      REQUIRE(SteadyClock::Get().Now() < deadline);
      backend->WaitUntil(deadline);
    }
    return c;
  };
  const std::vector<uint8_t> before(4096, 0x11);
  const std::vector<uint8_t> written(4096, 0x22);
  const std::vector<uint8_t> trimmed(4096, 0);
  CHECK(run(IoKind::kWrite, 0, 4096).outcome == IoOutcome::kOk);
  CHECK(run(IoKind::kWrite, kUsable - 4096, 4096).outcome == IoOutcome::kOk);
  CHECK(run(IoKind::kTrim, 8192, 4096).outcome == IoOutcome::kOk);
  CHECK(run(IoKind::kFlush, 0, 0).outcome == IoOutcome::kOk);
  for (const IoKind kind : {IoKind::kRead, IoKind::kWrite, IoKind::kTrim}) {
    for (const uint64_t offset : {kUsable - 4096, kUsable, kUsable + kBase, UINT64_MAX - 4095, uint64_t{0} - kBase}) {
      const IoCompletion c = run(kind, offset, 8192);
      CHECK(c.outcome == IoOutcome::kUnsupported);
      CHECK(c.native_code == EINVAL);
    }
  }
  CHECK(backend->Close());
  CHECK(read_whole(0) == before);
  CHECK(read_whole(kBase - 4096) == before);
  CHECK(read_whole(kBase) == written);
  CHECK(read_whole(kBase + 4096) == before);
  CHECK(read_whole(kBase + 8192) == trimmed);
  CHECK(read_whole(kBase + kUsable - 4096) == written);
  CHECK(read_whole(kBase + kUsable) == before);
  CHECK(read_whole(kSize - 4096) == before);
}

TEST_CASE("writing through a read-only descriptor fails with EBADF") {
  FOR_EACH_ENVIRONMENT(env);
  if (env.driven_by_time() || !env.has_descriptor()) return;
  auto rig = env.Make(1, kSize);
  const std::string path = "/proc/self/fd/" + std::to_string(rig->fd());
  Rig read_only(MakeUringBackend(), open(path.c_str(), O_RDONLY | O_CLOEXEC), kSize, 1);
  REQUIRE(read_only.fd() >= 0);
  read_only.Open();
  const IoCompletion c = read_only.RunOne(read_only.Op(IoKind::kWrite, 0, 4096));
  CHECK(c.outcome == IoOutcome::kOther);
  CHECK(c.native_code == EBADF);
}

TEST_CASE("a full file system is kNoSpace, and what fits is written") {
  RequireRootOrSkip();
  const FsKind kind = GENERATE(FsKind::kTmpfs, FsKind::kExt4);
  const bool direct = GENERATE(false, true);
  INFO(FsName(kind) << (direct ? ", O_DIRECT" : ", buffered"));
  const uint64_t bytes = kind == FsKind::kTmpfs ? 1 << 20 : 8 << 20;
  MountedFs fs(kind, bytes);
  const std::string path = fs.path() + "/object";
  Rig rig(MakeUringBackend(), open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | (direct ? O_DIRECT : 0), 0600), 0, 4);
  REQUIRE(rig.fd() >= 0);
  rig.Open();
  uint64_t written = 0;
  uint64_t refused = 0;
  for (uint64_t at = 0; at < 2 * bytes; at += Rig::kBuffer) {
    const IoCompletion c = rig.RunOne(rig.Op(IoKind::kWrite, at, Rig::kBuffer));
    if (c.outcome == IoOutcome::kOk) {
      ++written;
    } else {
      CHECK((c.outcome == IoOutcome::kNoSpace || c.outcome == IoOutcome::kShort));
      refused += c.outcome == IoOutcome::kNoSpace ? 1 : 0;
    }
  }
  CHECK(written >= 8);
  CHECK(written < bytes / Rig::kBuffer + 1);
  CHECK(refused >= bytes / Rig::kBuffer);
  CHECK(rig.backend().Close());
}

}  // namespace
}  // namespace muster::test
