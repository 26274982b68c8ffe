#include "agent/engine/op_source.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

namespace muster {
namespace {

Workload Work(Pattern pattern, double read) {
  Workload work;
  work.block = 4096;
  work.pattern = pattern;
  work.read = read;
  return work;
}

constexpr StreamExtent kExtent{
    .slot = 3, .area_offset = 8 * 4096, .area_length = 64 * 4096, .slice_offset = 16 * 4096, .slice_length = 10 * 4096};

TEST_CASE("sequential walks its slice block by block and wraps inside it") {
  OpSource source(Work(Pattern::kSequential, 1), kExtent, 1);
  for (int pass = 0; pass < 3; ++pass) {
    for (uint64_t i = 0; i < 10; ++i) {
      const PlannedOp op = source.Next();
      CHECK(op.offset == (16 + i) * 4096);
      CHECK(op.bytes == 4096);
      CHECK(op.slot == 3);
      CHECK(op.kind == OpKind::kRead);
    }
  }
}

TEST_CASE("random draws whole blocks of the area, each as often as the others") {
  OpSource source(Work(Pattern::kRandom, 1), kExtent, 12345);
  std::map<uint64_t, double> counts;
  const int n = 64'000;
  for (int i = 0; i < n; ++i) {
    const PlannedOp op = source.Next();
    REQUIRE(op.offset % 4096 == 0);
    REQUIRE(op.offset >= 8 * 4096);
    REQUIRE(op.offset + op.bytes <= 72 * 4096);
    ++counts[op.offset];
  }
  CHECK(counts.size() == 64);
  double chi = 0;
  for (const auto& [offset, count] : counts) chi += (count - 1000) * (count - 1000) / 1000;
  CHECK(chi < 110);  // 63 degrees of freedom: beyond it once in 5,000 seeds; this seed is fixed
  CHECK(chi > 30);   // and not suspiciously even
}

TEST_CASE("read share is kept, exactly at its ends") {
  for (const double read : {0.0, 0.3, 0.7, 1.0}) {
    OpSource source(Work(Pattern::kRandom, read), kExtent, 77);
    int reads = 0;
    for (int i = 0; i < 100'000; ++i) reads += source.Next().kind == OpKind::kRead ? 1 : 0;
    if (read == 0.0 || read == 1.0) {
      CHECK(reads == static_cast<int>(read * 100'000));
    } else {
      CHECK(reads / 100'000.0 == Approx(read).margin(0.008));
    }
  }
}

TEST_CASE("trims take their share of all operations, reads and writes split the rest") {
  Workload work = Work(Pattern::kRandom, 0.5);
  work.trim = 0.2;
  OpSource source(work, kExtent, 4);
  std::map<OpKind, double> counts;
  for (int i = 0; i < 100'000; ++i) ++counts[source.Next().kind];
  CHECK(counts[OpKind::kTrim] / 1e5 == Approx(0.2).margin(0.007));
  CHECK(counts[OpKind::kRead] / 1e5 == Approx(0.4).margin(0.008));
  CHECK(counts[OpKind::kWrite] / 1e5 == Approx(0.4).margin(0.008));
  work.trim = 1.0;
  OpSource only(work, kExtent, 4);
  for (int i = 0; i < 1000; ++i) CHECK(only.Next().kind == OpKind::kTrim);
}

TEST_CASE("a flush follows every so many writes, and takes no place") {
  Workload work = Work(Pattern::kSequential, 0.5);
  work.flush_every = 4;
  OpSource source(work, kExtent, 9);
  Workload without = work;
  without.flush_every = 0;
  OpSource same(without, kExtent, 9);
  uint32_t writes = 0;
  uint32_t flushes = 0;
  for (int i = 0; i < 5000; ++i) {
    const PlannedOp op = source.Next();
    if (op.kind == OpKind::kFlush) {
      CHECK(writes == 4);
      CHECK(op.bytes == 0);
      writes = 0;
      ++flushes;
      continue;
    }
    CHECK(writes < 4);
    const PlannedOp expected = same.Next();
    CHECK(op.offset == expected.offset);
    CHECK(op.kind == expected.kind);
    writes += op.kind == OpKind::kWrite ? 1 : 0;
  }
  CHECK(flushes > 500);
}

TEST_CASE("a stream's operations are a function of seed, initiator and stream") {
  const Workload work = Work(Pattern::kRandom, 0.7);
  const auto take = [&](uint64_t seed) {
    OpSource source(work, kExtent, seed);
    std::vector<std::pair<uint64_t, OpKind>> ops;
    for (int i = 0; i < 1000; ++i) {
      const PlannedOp op = source.Next();
      ops.emplace_back(op.offset, op.kind);
    }
    return ops;
  };
  const uint64_t seed = StreamSeed(1, SeedPurpose::kSource, 2, 3);
  CHECK(take(seed) == take(StreamSeed(1, SeedPurpose::kSource, 2, 3)));
  std::set<uint64_t> seeds;
  for (uint32_t initiator = 0; initiator < 24; ++initiator) {
    for (uint32_t stream = 0; stream < 16; ++stream) {
      seeds.insert(StreamSeed(1, SeedPurpose::kSource, initiator, stream));
      seeds.insert(StreamSeed(1, SeedPurpose::kPacer, initiator, stream));
    }
  }
  CHECK(seeds.size() == 24 * 16 * 2);
  CHECK(take(seed) != take(StreamSeed(1, SeedPurpose::kSource, 3, 2)));
}

TEST_CASE("a fill writes every block once a pass, in order, passes apart, and flushes at the end") {
  FillSpec spec;
  spec.block = 1 << 20;
  spec.passes = 2;
  spec.extents = {{.slot = 1, .offset = 1 << 20, .length = 2 << 20},
                  {.slot = 0, .offset = 0, .length = (1 << 20) + 4096}};
  FillSource source(spec);
  CHECK(source.bytes_total() == 2 * ((3u << 20) + 4096));
  struct Expected {
    uint32_t slot;
    uint64_t offset;
    uint32_t bytes;
  };
  const std::vector<Expected> pass = {
      {1, 1 << 20, 1 << 20}, {1, 2 << 20, 1 << 20}, {0, 0, 1 << 20}, {0, 1 << 20, 4096}};
  for (int p = 0; p < 2; ++p) {
    std::vector<PlannedOp> ops;
    for (const Expected& expected : pass) {
      PlannedOp op;
      REQUIRE(source.Next(op));
      CHECK(op.slot == expected.slot);
      CHECK(op.offset == expected.offset);
      CHECK(op.bytes == expected.bytes);
      CHECK(op.kind == OpKind::kWrite);
      ops.push_back(op);
    }
    PlannedOp none;
    CHECK_FALSE(source.Next(none));  // the pass has not ended
    for (const PlannedOp& op : ops) {
      CHECK_FALSE(source.finished());
      source.Done(op);
    }
  }
  PlannedOp flush;
  REQUIRE(source.Next(flush));
  CHECK(flush.kind == OpKind::kFlush);
  CHECK(flush.slot == 0);
  source.Done(flush);
  CHECK_FALSE(source.finished());
  REQUIRE(source.Next(flush));
  CHECK(flush.slot == 1);
  CHECK_FALSE(source.finished());
  source.Done(flush);
  CHECK_FALSE(source.Next(flush));
  CHECK(source.finished());
  CHECK(source.bytes_done() == source.bytes_total());
}

TEST_CASE("an empty fill is finished at once") {
  FillSpec spec;
  spec.passes = 3;
  FillSource source(spec);
  PlannedOp op;
  CHECK_FALSE(source.Next(op));
  CHECK(source.finished());
}

}  // namespace
}  // namespace muster
