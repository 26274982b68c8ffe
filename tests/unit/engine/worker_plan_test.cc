#include "agent/engine/worker_plan.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "agent/engine/buffer_pool.h"
#include "common/base/status.h"

namespace muster {
namespace {

PhaseSpec Spec(uint32_t initiators, uint32_t streams, uint32_t depth, uint64_t size = 1 << 30) {
  PhaseSpec spec;
  spec.target = "t";
  spec.initiator_count = spec.initiator_count_max = initiators;
  for (uint32_t i = 0; i < initiators; ++i) spec.initiators.push_back(i);
  spec.objects = {{.slot = 0, .name = "data", .size = size}};
  Workload work;
  work.load = {.streams = streams, .depth = depth};
  work.size = size;
  spec.work = MeasureSpec{.workload = work};
  return spec;
}
Workload& WorkOf(PhaseSpec& spec) {
  return std::get<MeasureSpec>(spec.work).workload;
}

EngineTarget Target(uint32_t logical = 512, uint64_t size = 1 << 30) {
  return {.target = {.name = "t", .kind = NullTarget{}},
          .objects = {{.fd = 0, .size = size, .logical_block = logical}}};
}

std::string CodeOf(const absl::Status& status) {
  return GetErrorInfo(status).code;
}

TEST_CASE("every stream is on one worker, evenly, depth kept") {
  for (uint32_t cpus : {1u, 2u, 3u, 7u, 64u}) {
    const PhaseSpec spec = Spec(3, 5, 4);
    const auto workers = PlanWorkers(spec, Target(), cpus);
    REQUIRE(workers.ok());
    CHECK(workers->size() == std::min(cpus, 15u));
    std::set<std::pair<uint32_t, uint32_t>> streams;
    uint32_t slots = 0;
    size_t pairs = 0;
    for (const WorkerPlan& worker : *workers) {
      size_t count = 0;
      uint32_t of_groups = 0;
      for (const GroupPlan& group : worker.groups) {
        count += group.streams.size();
        of_groups += group.slots;
        CHECK(group.slots == group.streams.size() * 4);
        for (const StreamPlan& stream : group.streams) CHECK(streams.emplace(group.initiator, stream.stream).second);
      }
      CHECK(of_groups == worker.slots);
      CHECK(count >= 15 / workers->size());
      CHECK(count <= (15 + workers->size() - 1) / workers->size());
      slots += worker.slots;
      pairs += worker.groups.size();
    }
    CHECK(streams.size() == 15);
    CHECK(slots == 60);
    CHECK(pairs <= 3 + workers->size() - 1);
  }
}

TEST_CASE("open loop: max_outstanding of an initiator is split exactly, none without a share") {
  for (uint32_t cap : {1u, 2u, 7u, 1000u, 1024u}) {
    for (uint32_t cpus : {1u, 2u, 3u, 8u}) {
      PhaseSpec spec = Spec(2, 5, 1);
      WorkOf(spec).pacing = Pacing::kPoisson;
      WorkOf(spec).rate = 1000;
      WorkOf(spec).max_outstanding = cap;
      const auto workers = PlanWorkers(spec, Target(), cpus);
      REQUIRE(workers.ok());
      std::map<uint32_t, uint32_t> share;
      for (const WorkerPlan& worker : *workers) {
        for (const GroupPlan& group : worker.groups) {
          CHECK(group.slots > 0);
          share[group.initiator] += group.slots;
        }
      }
      CHECK(share == std::map<uint32_t, uint32_t>{{0, cap}, {1, cap}});
    }
  }
}

TEST_CASE("24 initiators at 16T16Q keep their recorders within the bounds, on any number of CPUs up to 16") {
  for (const bool open : {false, true}) {
    for (uint32_t cpus : {1u, 2u, 4u, 16u}) {
      PhaseSpec spec = Spec(24, 16, 16);
      WorkOf(spec).read = 0.7;
      if (open) {
        WorkOf(spec).pacing = Pacing::kPoisson;
        WorkOf(spec).rate = 1e5;
      }
      const auto workers = PlanWorkers(spec, Target(), cpus);
      REQUIRE(workers.ok());
      std::vector<RecorderShape> shapes;
      for (const WorkerPlan& worker : *workers) shapes.push_back(worker.shape);
      const auto pages = BudgetPages(shapes);
      REQUIRE(pages.ok());
      size_t bytes = 0;
      for (size_t w = 0; w < shapes.size(); ++w) {
        CHECK((*pages)[w] >= PagesFor(shapes[w]).least);
        bytes += IntervalRecorder(shapes[w], (*pages)[w]).Bytes();
      }
      CHECK(bytes <= (open ? 250'000'000 : 100'000'000));
    }
  }
}

TEST_CASE("too many recorders are refused at once, with a code") {
  std::vector<RecorderShape> shapes(1);
  shapes[0].initiators = 500;
  shapes[0].kinds = {true, true, true, true};
  const auto pages = BudgetPages(shapes);
  REQUIRE_FALSE(pages.ok());
  CHECK(CodeOf(pages.status()) == "RECORDER_MEMORY");
}

TEST_CASE("kinds that the workload does not have get no recorder") {
  PhaseSpec spec = Spec(1, 1, 1);
  CHECK(PlanWorkers(spec, Target(), 1)->front().shape.kinds == std::array<bool, kOpKinds>{true, false, false, false});
  WorkOf(spec).read = 0;
  WorkOf(spec).flush_every = 8;
  CHECK(PlanWorkers(spec, Target(), 1)->front().shape.kinds == std::array<bool, kOpKinds>{false, true, true, false});
  WorkOf(spec).trim = 1;
  CHECK(PlanWorkers(spec, Target(), 1)->front().shape.kinds == std::array<bool, kOpKinds>{false, false, false, true});
}

TEST_CASE("what cannot be done is refused with a code that says why") {
  PhaseSpec spec = Spec(2, 4, 1, 7 * 4096);
  WorkOf(spec).pattern = Pattern::kSequential;
  CHECK(CodeOf(PlanWorkers(spec, Target(), 1).status()) == "SET_TOO_SMALL");
  WorkOf(spec).pattern = Pattern::kRandom;
  CHECK(PlanWorkers(spec, Target(), 1).ok());
  CHECK(CodeOf(PlanWorkers(spec, Target(512, 4096), 1).status()) == "SET_TOO_SMALL");  // object smaller than the plan
  CHECK(CodeOf(PlanWorkers(spec, Target(8192), 1).status()) == "BLOCK_ALIGNMENT");
  WorkOf(spec).block = uint64_t{1} << 31;
  CHECK(CodeOf(PlanWorkers(spec, Target(), 1).status()) == "BLOCK_SIZE");
  WorkOf(spec).block = 4096;
  WorkOf(spec).pacing = Pacing::kFixed;
  CHECK(CodeOf(PlanWorkers(spec, Target(), 1).status()) == "RATE_MISSING");
  WorkOf(spec).pacing = Pacing::kClosed;
  WorkOf(spec).load.depth = 0;
  CHECK(CodeOf(PlanWorkers(spec, Target(), 1).status()) == "LOAD_EMPTY");
  EngineTarget none = Target();
  none.objects.clear();
  CHECK(CodeOf(PlanWorkers(Spec(1, 1, 1), none, 1).status()) == "OBJECT_MISSING");
}

TEST_CASE("the mapping is told in words") {
  CHECK(DescribeMapping(*PlanWorkers(Spec(2, 4, 1), Target(), 3)) ==
        "0: initiator 0 streams 0-1; 1: initiator 0 streams 2-3 initiator 1 streams 0-0; 2: initiator 1 streams 1-3");
}

TEST_CASE("buffers are page-aligned, disjoint and inside their registered regions") {
  for (const size_t slot_bytes : {size_t{4096}, size_t{1} << 20, size_t{300} << 20}) {
    const uint32_t slots = slot_bytes > (100 << 20) ? 7 : 33;
    const auto pool = BufferPool::Allocate(slots, slot_bytes, slot_bytes <= 4096);
    REQUIRE(pool.ok());
    std::set<uint8_t*> seen;
    for (uint32_t slot = 0; slot < slots; ++slot) {
      uint8_t* at = (*pool)->At(slot);
      CHECK(reinterpret_cast<uintptr_t>(at) % 4096 == 0);
      CHECK(seen.insert(at).second);
      const BufferRegion& region = (*pool)->regions()[(*pool)->RegionOf(slot)];
      CHECK(region.bytes <= size_t{1} << 30);
      CHECK(at >= region.base);
      CHECK(at + slot_bytes <= region.base + region.bytes);
      at[0] = at[slot_bytes - 1] = 7;
    }
    for (auto one = seen.begin(), next = std::next(one); next != seen.end(); ++one, ++next) {
      CHECK(*next - *one >= static_cast<ptrdiff_t>(slot_bytes));
    }
  }
}

TEST_CASE("a fleet's rate is split over the initiators that are there") {
  PhaseSpec spec = Spec(4, 2, 4);
  WorkOf(spec).pacing = Pacing::kPoisson;
  WorkOf(spec).rate = 8000;
  WorkOf(spec).max_outstanding = 64;
  const auto rate = [&] { return (*PlanWorkers(spec, Target(), 1))[0].groups.at(0).streams.at(0).rate; };
  CHECK(rate() == 1000);
  spec.initiators_sharing = 2;
  CHECK(rate() == 2000);
  WorkOf(spec).rate_per = RatePer::kInitiator;
  CHECK(rate() == 4000);
}

TEST_CASE("what each connection takes by itself counts with the buffers") {
  EngineTarget target = Target();
  target.connection_bytes = uint64_t{64} << 20;
  const PhaseSpec spec = Spec(3, 5, 4);
  const uint64_t buffers = 60 * 4096;
  CHECK(BufferBytes(*PlanWorkers(spec, target, 2), target) == buffers);  // reached without connections
  target.connections = 2;
  for (const uint32_t cpus : {1u, 2u, 8u}) {
    CHECK(BufferBytes(*PlanWorkers(spec, target, cpus), target) == buffers + 6 * (uint64_t{64} << 20));
  }
}

TEST_CASE("buffer memory has a limit with a code") {
  CHECK(CheckBufferMemory(1 << 20, 1 << 20).ok());
  CHECK(CodeOf(CheckBufferMemory((1 << 20) + 1, 1 << 20)) == "BUFFER_MEMORY");
  CHECK(CheckBufferMemory(1 << 20, 0).ok());
  CHECK(CodeOf(CheckBufferMemory(uint64_t{1} << 60, 0)) == "BUFFER_MEMORY");
}

}  // namespace
}  // namespace muster
