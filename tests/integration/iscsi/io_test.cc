// What goes through the session is what the backing file holds, whatever sizes, depths, blocks and LUNs.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>

#include "agent/backend/iscsi/inspect.h"
#include "tests/integration/iscsi/connection.h"

namespace muster::test {
namespace {

TEST_CASE("what is written is in the backing file, and what is in it is read") {
  RequireTgtOrSkip();
  Tgt tgt;
  const std::string path = tgt.AddLun(tgt.AddTarget(kTarget), 1, {});
  Connection c(SpecFor(tgt.port()));
  c.Open();
  std::vector<IoOp> writes;
  for (uint32_t i = 0; i < 32; ++i) {
    const uint32_t bytes = i % 2 == 0 ? 4096 : 65536;
    FillRandom(c.buffer(i), bytes, i);
    writes.push_back(c.Op(IoKind::kWrite, i * 65536, bytes, i));
    if (i % 3 == 0) writes.back().flags = kIoFua;
  }
  for (const IoCompletion& done : c.Run(writes)) {
    CHECK(done.outcome == IoOutcome::kOk);
    CHECK(done.bytes == writes[done.tag].bytes);
  }
  CHECK(c.RunOne(c.Op(IoKind::kFlush, 0, 0)).outcome == IoOutcome::kOk);
  for (const IoOp& op : writes) {
    const std::vector<uint8_t> there = ReadFile(path, op.offset, op.bytes);
    CHECK(std::memcmp(there.data(), op.buffer, op.bytes) == 0);
  }
  for (uint32_t i = 0; i < 32; ++i) std::memset(c.buffer(i), 0, c.buffer_bytes());
  std::vector<IoOp> reads = writes;
  for (IoOp& op : reads) op.kind = IoKind::kRead;
  for (const IoCompletion& done : c.Run(reads)) CHECK(done.outcome == IoOutcome::kOk);
  std::vector<uint8_t> expected(65536);
  for (const IoOp& op : reads) {
    FillRandom(expected.data(), op.bytes, op.tag);
    CHECK(std::memcmp(expected.data(), op.buffer, op.bytes) == 0);
  }
  CHECK(c.backend().Close());
}

TEST_CASE("another initiator reads what was written") {
  RequireTgtOrSkip();
  if (access("/usr/bin/qemu-img", X_OK) != 0) {
    WARN("not run: needs qemu-img with its iSCSI driver (qemu-utils, qemu-block-extra)");
    return;
  }
  Tgt tgt;
  constexpr uint64_t kBytes = 4 << 20;
  tgt.AddLun(tgt.AddTarget(kTarget), 1, {.bytes = kBytes});
  Connection c(SpecFor(tgt.port()));
  c.Open();
  std::vector<IoOp> writes;
  for (uint32_t i = 0; i < 32; ++i) {
    FillRandom(c.buffer(i), 65536, 100 + i);
    writes.push_back(c.Op(IoKind::kWrite, i * kBytes / 32, 65536, i));
  }
  for (const IoCompletion& done : c.Run(writes)) CHECK(done.outcome == IoOutcome::kOk);
  const std::string copy = tgt.directory() + "/copy";
  RunProgram({"/usr/bin/qemu-img", "convert", "-O", "raw",
              "iscsi://127.0.0.1:" + std::to_string(tgt.port()) + "/" + kTarget + "/1", copy});
  for (const IoOp& op : writes) {
    CHECK(std::memcmp(ReadFile(copy, op.offset, op.bytes).data(), op.buffer, op.bytes) == 0);
  }
}

TEST_CASE("an operation of 8 MiB goes out in parts and is one operation") {
  RequireTgtOrSkip();
  Tgt tgt;
  const std::string path = tgt.AddLun(tgt.AddTarget(kTarget), 1, {});
  constexpr uint32_t kBytes = 8 << 20;
  Connection c(SpecFor(tgt.port()), 4, kBytes);
  c.Open();
  for (uint32_t i = 0; i < 3; ++i) FillRandom(c.buffer(i), kBytes, i);
  const uint64_t before = c.Counter("commands");
  std::vector<IoOp> ops;
  for (uint32_t i = 0; i < 3; ++i) ops.push_back(c.Op(IoKind::kWrite, uint64_t{i} * kBytes, kBytes, i));
  for (const IoCompletion& done : c.Run(ops)) {
    CHECK(done.outcome == IoOutcome::kOk);
    CHECK(done.bytes == kBytes);
  }
  CHECK(c.Counter("commands") - before == 3 * 8);
  for (uint32_t i = 0; i < 3; ++i) {
    CHECK(std::memcmp(ReadFile(path, uint64_t{i} * kBytes, kBytes).data(), c.buffer(i), kBytes) == 0);
  }
  REQUIRE(c.RunOne(c.Op(IoKind::kRead, kBytes, kBytes, 3)).outcome == IoOutcome::kOk);
  CHECK(std::memcmp(c.buffer(3), c.buffer(1), kBytes) == 0);
  // Half of it lies beyond the end.
  const IoCompletion across = c.RunOne(c.Op(IoKind::kRead, (32 << 20) - kBytes / 2, kBytes, 3));
  CHECK(across.outcome == IoOutcome::kShort);
  CHECK(across.bytes == kBytes / 2);
  CHECK(c.backend().outstanding() == 0);
}

TEST_CASE("more parts than the command window go out as it opens") {
  RequireTgtOrSkip();
  Tgt tgt;
  const int target = tgt.AddTarget(kTarget);
  tgt.Set(target, "MaxQueueCmd", "4");
  const std::string path = tgt.AddLun(target, 1, {});
  IscsiConnectionSpec spec = SpecFor(tgt.port());
  spec.max_transfer = 4096;
  Connection c(spec, 8, 1 << 20);
  c.Open();
  FillRandom(c.buffer(0), 1 << 20, 5);
  CHECK(c.RunOne(c.Op(IoKind::kWrite, 0, 1 << 20)).outcome == IoOutcome::kOk);
  CHECK(std::memcmp(ReadFile(path, 0, 1 << 20).data(), c.buffer(0), 1 << 20) == 0);
  // Small ones: as many as the window has room for are accepted, no more.
  std::vector<IoOp> ops;
  for (uint32_t i = 0; i < 8; ++i) ops.push_back(c.Op(IoKind::kRead, i * 4096, 4096, i));
  const size_t accepted = c.backend().Submit(ops, SteadyClock::Get().Now());
  CHECK(accepted >= 1);
  CHECK(accepted < 8);
  for (const IoCompletion& done : c.Collect(accepted)) CHECK(done.outcome == IoOutcome::kOk);
  CHECK(c.Counter("time behind the command window ns") > 0);
  CHECK(c.Counter("smallest command window") <= 5);
}

TEST_CASE("256 operations at once") {
  RequireTgtOrSkip();
  Tgt tgt;
  tgt.AddLun(tgt.AddTarget(kTarget), 1, {});
  Connection c(SpecFor(tgt.port()), 400, 4096);
  c.Open();
  CHECK(c.backend().Describe().max_outstanding == 256);
  std::vector<IoOp> ops;
  for (uint32_t i = 0; i < 300; ++i)
    ops.push_back(c.Op(i % 2 == 0 ? IoKind::kRead : IoKind::kWrite, i * 4096, 4096, i));
  for (int round = 0; round < 20; ++round) {
    for (const IoCompletion& done : c.Run(ops)) CHECK(done.outcome == IoOutcome::kOk);
  }
  CHECK(c.backend().outstanding() == 0);
}

TEST_CASE("blocks of 4,096 bytes, several LUNs on one connection") {
  RequireTgtOrSkip();
  Tgt tgt;
  const int target = tgt.AddTarget(kTarget);
  const std::string one = tgt.AddLun(target, 1, {.bytes = 8 << 20, .block = 4096});
  const std::string five = tgt.AddLun(target, 5, {.bytes = 4 << 20, .block = 512});
  IscsiConnectionSpec spec = SpecFor(tgt.port());
  spec.luns = {5, 1};
  Connection c(spec);
  c.Open();
  CHECK(c.Parameter("LUN 1 block") == "4096");
  CHECK(c.Parameter("LUN 5 size") == std::to_string(4 << 20));
  FillRandom(c.buffer(0), 4096, 1);
  FillRandom(c.buffer(1), 4096, 2);
  IoOp on_five = c.Op(IoKind::kWrite, 512, 4096, 0);
  IoOp on_one = c.Op(IoKind::kWrite, 8192, 4096, 1);
  on_one.object = 1;
  for (const IoCompletion& done : c.Run({on_five, on_one})) CHECK(done.outcome == IoOutcome::kOk);
  CHECK(std::memcmp(ReadFile(five, 512, 4096).data(), c.buffer(0), 4096) == 0);
  CHECK(std::memcmp(ReadFile(one, 8192, 4096).data(), c.buffer(1), 4096) == 0);
  on_one.offset = 512;
  const IoCompletion misaligned = c.RunOne(on_one);
  CHECK(misaligned.outcome == IoOutcome::kUnsupported);
  CHECK(misaligned.native_code == EINVAL);
}

TEST_CASE("a base shifts every offset, and nothing beyond the usable size is touched") {
  RequireTgtOrSkip();
  Tgt tgt;
  const std::string path = tgt.AddLun(tgt.AddTarget(kTarget), 1, {.bytes = 8 << 20});
  constexpr uint64_t kBase = 1 << 20;
  constexpr uint64_t kUsable = (8 << 20) - 2 * kBase;
  Connection c(SpecFor(tgt.port()));
  c.Open({{.size = kUsable, .base = kBase}});
  FillRandom(c.buffer(0), 4096, 1);
  CHECK(c.RunOne(c.Op(IoKind::kWrite, 0, 4096)).outcome == IoOutcome::kOk);
  CHECK(c.RunOne(c.Op(IoKind::kWrite, kUsable - 4096, 4096)).outcome == IoOutcome::kOk);
  for (const IoKind kind : {IoKind::kRead, IoKind::kWrite, IoKind::kTrim}) {
    for (const uint64_t offset : {kUsable - 4096, kUsable, UINT64_MAX - 4095, uint64_t{0} - kBase}) {
      const IoCompletion done = c.RunOne(c.Op(kind, offset, 8192));
      CHECK(done.outcome == IoOutcome::kUnsupported);
      CHECK(done.native_code == EINVAL);
    }
  }
  const std::vector<uint8_t> zeroes(kBase, 0);
  CHECK(ReadFile(path, 0, kBase) == zeroes);
  CHECK(ReadFile(path, kBase + kUsable, kBase) == zeroes);
  CHECK(std::memcmp(ReadFile(path, kBase, 4096).data(), c.buffer(0), 4096) == 0);
  CHECK(std::memcmp(ReadFile(path, kBase + kUsable - 4096, 4096).data(), c.buffer(0), 4096) == 0);
}

TEST_CASE("trim where the LUN has it, and a plain no where not") {
  RequireTgtOrSkip();
  Tgt tgt;
  const int target = tgt.AddTarget(kTarget);
  const std::string path = tgt.AddLun(target, 1, {});
  tgt.AddLun(target, 2, {.thin = false});
  IscsiConnectionSpec spec = SpecFor(tgt.port());
  spec.luns = {1, 2};
  Connection c(spec);
  c.Open();
  FillRandom(c.buffer(0), 65536, 3);
  CHECK(c.RunOne(c.Op(IoKind::kWrite, 0, 65536)).outcome == IoOutcome::kOk);
  CHECK(c.RunOne(c.Op(IoKind::kTrim, 16384, 16384)).outcome == IoOutcome::kOk);
  CHECK(ReadFile(path, 16384, 16384) == std::vector<uint8_t>(16384, 0));
  CHECK(std::memcmp(ReadFile(path, 32768, 32768).data(), c.buffer(0) + 32768, 32768) == 0);
  IoOp elsewhere = c.Op(IoKind::kTrim, 0, 4096);
  elsewhere.object = 1;
  const IoCompletion no = c.RunOne(elsewhere);
  CHECK(no.outcome == IoOutcome::kUnsupported);
  CHECK(no.native_code == EOPNOTSUPP);
}

TEST_CASE("what was agreed on is described") {
  RequireTgtOrSkip();
  Tgt tgt;
  const int target = tgt.AddTarget(kTarget);
  tgt.AddLun(target, 1, {});
  tgt.Set(target, "HeaderDigest", "CRC32C");
  IscsiConnectionSpec spec = SpecFor(tgt.port());
  spec.header_digest = IscsiHeaderDigest::kCrc32c;
  spec.isid_qualifier = 0x1234;
  Connection c(spec);
  c.Open();
  CHECK(c.Parameter("HeaderDigest") == "CRC32C");
  CHECK(c.Parameter("DataDigest") == "None");
  CHECK(c.Parameter("MaxBurstLength") == "262144");
  CHECK(c.Parameter("InitialR2T") == "No");
  CHECK(c.Parameter("ImmediateData") == "Yes");
  CHECK(c.Parameter("portal") == "127.0.0.1:" + std::to_string(tgt.port()));
  CHECK(c.Parameter("ISID").substr(8) == "1234");
  CHECK(c.Parameter("LUN write cache") == "on");
  CHECK(c.Parameter("LUN FUA") == "yes");
  CHECK(std::stoul(c.Parameter("command window")) >= 32);
  FillRandom(c.buffer(0), 65536, 3);
  CHECK(c.RunOne(c.Op(IoKind::kWrite, 0, 65536)).outcome == IoOutcome::kOk);
  CHECK(c.RunOne(c.Op(IoKind::kRead, 0, 65536, 1)).outcome == IoOutcome::kOk);
  CHECK(std::memcmp(c.buffer(0), c.buffer(1), 65536) == 0);
}

TEST_CASE("a batch of commands leaves as one segment") {
  RequireTgtOrSkip();
  Tgt tgt;
  tgt.AddLun(tgt.AddTarget(kTarget), 1, {});
  const IscsiConnectionSpec spec = SpecFor(tgt.port());
  IscsiSession session(spec);
  IscsiInspector inspector(spec, session);
  const Nanos deadline = SteadyClock::Get().Now() + kMinute;
  REQUIRE(session.Start("127.0.0.1:" + std::to_string(tgt.port())).ok());
  REQUIRE(inspector.WaitForLogin(deadline).ok());
  REQUIRE(inspector.Inspect(1, deadline).ok());
  constexpr uint32_t kBatch = 8;
  uint32_t answers = 0;
  session.SetHandler([](void* count, uint32_t, const ScsiAnswer&) { ++*static_cast<uint32_t*>(count); }, &answers);
  const auto segments = [&] {
    tcp_info info{};
    socklen_t bytes = sizeof info;
    REQUIRE(getsockopt(session.fd(), IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0);
    return info.tcpi_data_segs_out;
  };
  // With its end known, and with one that turns out to have been the last.
  for (const bool known : {true, false}) {
    std::vector<uint8_t> data(kBatch * 4096);
    const uint32_t before = segments();
    answers = 0;
    for (uint32_t i = 0; i < kBatch; ++i) {
      session.ExpectMore(!known || i + 1 < kBatch);
      REQUIRE(session.Send(i, ReadCdb(i, 8, false), 1, data.data() + i * 4096, 4096));
    }
    session.Push();
    CHECK(segments() - before == 1);
    while (answers < kBatch && SteadyClock::Get().Now() < deadline) session.Step();
    CHECK(answers == kBatch);
  }
}

}  // namespace
}  // namespace muster::test
