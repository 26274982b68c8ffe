#include "common/plan/layout.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <set>

namespace muster {
namespace {

Target Null() {
  return {.name = "t", .kind = NullTarget{}};
}
Target Block() {
  return {.name = "t", .kind = BlockTarget{.device = "/dev/x"}};
}
Target File(FileLayout files) {
  return {.name = "t", .kind = FileTarget{.dir = "/d", .files = files}};
}

Workload Work(uint64_t block, uint32_t streams, Layout layout) {
  Workload work;
  work.block = block;
  work.load.streams = streams;
  work.layout = layout;
  return work;
}

TEST_CASE("one object holds the whole size, rounded down to blocks") {
  for (const Target& target : {Null(), Block(), File(FileLayout::kOne)}) {
    const auto objects = LayOutObjects(target, 10'000, 4096, 3, 2);
    REQUIRE(objects.size() == 1);
    CHECK(objects[0].slot == 0);
    CHECK(objects[0].size == 8192);
  }
  CHECK(LayOutObjects(File(FileLayout::kOne), 8192, 4096, 1, 1)[0].name == "data");
  CHECK(LayOutObjects(Block(), 8192, 4096, 1, 1)[0].name.empty());
}

TEST_CASE("LUNs share the size; initiator i works on LUN i modulo their number, with those who do so too") {
  Target target{.name = "t", .kind = IscsiTarget{}};
  auto& iscsi = std::get<IscsiTarget>(target.kind);
  iscsi.iqn = "iqn.x:disks";
  iscsi.luns = {2, 3, 4};
  const uint32_t initiators = 8;
  const auto objects = LayOutObjects(target, 3 << 20, 4096, initiators, 2);
  REQUIRE(objects.size() == 3);
  for (const ObjectSpec& object : objects) CHECK(object.size == 1 << 20);
  Workload work;
  work.block = 4096;
  work.size = 3 << 20;
  work.load = {.streams = 2, .depth = 1};
  for (const Layout layout : {Layout::kShared, Layout::kPartition}) {
    work.layout = layout;
    std::vector<uint64_t> covered(3);
    for (uint32_t i = 0; i < initiators; ++i) {
      for (uint32_t s = 0; s < 2; ++s) {
        const StreamExtent extent = ExtentOf(target, objects, work, initiators, initiators, i, s);
        CHECK(extent.slot == i % 3);
        CHECK(extent.slice_offset + extent.slice_length <= 1 << 20);
        covered[extent.slot] += extent.slice_length;
        if (layout == Layout::kShared) CHECK(extent.area_length == 1 << 20);
        // LUNs 0 and 1 have three initiators, LUN 2 has two: a third or half of it each.
        const uint64_t share = (1 << 20) / (i % 3 == 2 ? 2 : 3);
        if (layout == Layout::kPartition) CHECK(extent.area_length / 4096 - share / 4096 <= 1);
      }
    }
    for (const uint64_t bytes : covered) CHECK(bytes == 1 << 20);  // every block belongs to exactly one slice
  }
  // A target for each initiator: as many objects.
  iscsi.iqn = "iqn.x:disk{initiator}";
  CHECK(LayOutObjects(target, 8 << 20, 4096, initiators, 2).size() == 8);
  CHECK(ExtentOf(target, LayOutObjects(target, 8 << 20, 4096, 8, 2), work, 8, 8, 7, 0).slot == 7);
  CHECK(ForInitiator("a{initiator}b{initiator}", 12) == "a12b12");
}

TEST_CASE("files of their own share the size") {
  const auto initiators = LayOutObjects(File(FileLayout::kPerInitiator), 1'000'000, 4096, 3, 2);
  REQUIRE(initiators.size() == 3);
  for (const ObjectSpec& object : initiators) CHECK(object.size == 1'000'000 / 3 / 4096 * 4096);
  const auto streams = LayOutObjects(File(FileLayout::kPerStream), 1'000'000, 4096, 3, 2);
  REQUIRE(streams.size() == 6);
  std::set<std::string> names;
  for (uint32_t i = 0; i < 6; ++i) {
    CHECK(streams[i].slot == i);
    CHECK(streams[i].size == 1'000'000 / 6 / 4096 * 4096);
    names.insert(streams[i].name);
  }
  CHECK(names.size() == 6);
  CHECK(streams[3].name == "data.1.1");
}

TEST_CASE("shared: the area is everything, slices of all streams cover it exactly once") {
  const uint64_t block = 4096;
  for (const uint64_t blocks : {1'000u, 1'003u, 17u}) {
    const auto objects = LayOutObjects(Null(), blocks * block, block, 4, 4);
    const Workload work = Work(block, 4, Layout::kShared);
    uint64_t next = 0;
    for (uint32_t initiator = 0; initiator < 3; ++initiator) {
      for (uint32_t stream = 0; stream < 4; ++stream) {
        const StreamExtent e = ExtentOf(Null(), objects, work, 3, 4, initiator, stream);
        CHECK(e.area_offset == 0);
        CHECK(e.area_length == blocks * block);
        CHECK(e.slice_offset == next);
        CHECK(e.slice_length % block == 0);
        CHECK(e.slice_length / block >= blocks / 12);
        CHECK(e.slice_length / block <= blocks / 12 + 1);
        next += e.slice_length;
      }
    }
    CHECK(next == blocks * block);
  }
}

TEST_CASE("partition: an initiator's slice neither moves nor grows between rungs") {
  const uint64_t block = 4096;
  const auto objects = LayOutObjects(Null(), 2'400 * block, block, 24, 16);
  for (uint32_t initiator : {0u, 1u, 23u}) {
    const Workload narrow = Work(block, 1, Layout::kPartition);
    const StreamExtent reference = ExtentOf(Null(), objects, narrow, 24, 24, initiator, 0);
    CHECK(reference.area_offset == initiator * 100 * block);
    CHECK(reference.area_length == 100 * block);
    for (uint32_t rung : {initiator + 1, 24u}) {
      for (uint32_t streams : {1u, 4u, 16u}) {
        uint64_t next = reference.area_offset;
        for (uint32_t stream = 0; stream < streams; ++stream) {
          const StreamExtent e =
              ExtentOf(Null(), objects, Work(block, streams, Layout::kPartition), rung, 24, initiator, stream);
          CHECK(e.area_offset == reference.area_offset);
          CHECK(e.area_length == reference.area_length);
          CHECK(e.slice_offset == next);
          next += e.slice_length;
        }
        CHECK(next == reference.area_offset + reference.area_length);
      }
    }
  }
}

TEST_CASE("own files: a stream stays in its file") {
  const uint64_t block = 4096;
  const Target per_initiator = File(FileLayout::kPerInitiator);
  const auto files = LayOutObjects(per_initiator, 400 * block, block, 4, 4);
  const StreamExtent a = ExtentOf(per_initiator, files, Work(block, 4, Layout::kShared), 2, 4, 1, 3);
  CHECK(a.slot == 1);
  CHECK(a.area_length == 100 * block);
  CHECK(a.slice_offset == 75 * block);
  CHECK(a.slice_length == 25 * block);

  const Target per_stream = File(FileLayout::kPerStream);
  const auto many = LayOutObjects(per_stream, 1'600 * block, block, 4, 4);
  const StreamExtent b = ExtentOf(per_stream, many, Work(block, 2, Layout::kShared), 2, 4, 1, 1);
  CHECK(b.slot == 1 * 4 + 1);
  CHECK(b.slice_offset == 0);
  CHECK(b.slice_length == 100 * block);
}

TEST_CASE("a set smaller than its streams leaves some without a block") {
  const uint64_t block = 4096;
  const auto objects = LayOutObjects(Null(), 3 * block, block, 1, 4);
  uint32_t without = 0;
  for (uint32_t stream = 0; stream < 4; ++stream) {
    without += ExtentOf(Null(), objects, Work(block, 4, Layout::kShared), 1, 1, 0, stream).slice_length == 0 ? 1 : 0;
  }
  CHECK(without == 1);
  CHECK(ExtentOf(Null(), {}, Work(block, 1, Layout::kShared), 1, 1, 0, 0).area_length == 0);
}

TEST_CASE("the sizes of a large array do not overflow") {
  const uint64_t block = 512;
  const uint64_t size = uint64_t{1} << 60;
  const auto objects = LayOutObjects(Null(), size, block, 65'535, 1);
  const StreamExtent e = ExtentOf(Null(), objects, Work(block, 256, Layout::kShared), 65'535, 65'535, 65'534, 255);
  CHECK(e.slice_offset + e.slice_length == size);
}

TEST_CASE("a fill is dealt in contiguous ranges that cover every block once") {
  const uint64_t block = 1 << 20;
  const std::vector<ObjectSpec> objects = {{0, "a", 10 * block + 4096}, {1, "b", 3 * block}, {2, "c", 4096}};
  for (uint32_t agents : {1u, 2u, 3u, 5u, 40u}) {
    const auto deal = DealFill(objects, block, agents);
    REQUIRE(deal.size() == agents);
    std::vector<uint64_t> reached(objects.size(), 0);
    uint64_t most = 0;
    uint64_t least = UINT64_MAX;
    for (const auto& extents : deal) {
      uint64_t blocks = 0;
      for (const FillExtent& extent : extents) {
        CHECK(extent.offset == reached[extent.slot]);
        CHECK(extent.offset % block == 0);
        CHECK(extent.length > 0);
        reached[extent.slot] += extent.length;
        blocks += (extent.length + block - 1) / block;
      }
      most = std::max(most, blocks);
      least = std::min(least, blocks);
    }
    for (const ObjectSpec& object : objects) CHECK(reached[object.slot] == object.size);
    CHECK(most - least <= 1);
  }
}

TEST_CASE("initiators are spread over agents first, then packed") {
  CHECK(DealInitiators(5, 3) == std::vector<std::vector<uint32_t>>{{0, 3}, {1, 4}, {2}});
  CHECK(DealInitiators(2, 3) == std::vector<std::vector<uint32_t>>{{0}, {1}, {}});
}

TEST_CASE("phases have names") {
  CHECK(PhaseKindName(PhaseKind::kAttach) == "attach");
  CHECK(PhaseKindName(PhaseKind::kFill) == "fill");
  CHECK(PhaseKindName(PhaseKind::kMeasure) == "measure");
  CHECK(PhaseKindName(PhaseKind::kDetach) == "detach");
}

}  // namespace
}  // namespace muster
