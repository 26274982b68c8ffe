// What a report of one initiator-interval takes on the wire: recorded, collected, encoded for real.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "agent/engine/interval_collector.h"
#include "agent/engine/report_bound.h"
#include "common/wire/codec.h"

namespace muster {
namespace {

constexpr size_t kClosedBound = size_t{8} << 10;
constexpr size_t kOpenBound = size_t{24} << 10;
constexpr int kOperations = 30'000;

// Latencies as devices have them: log-normal, 99.7 % of them over `decades` decades around the median.
class Latencies {
 public:
  Latencies(double median, double decades) : log_(std::log(median), decades * std::log(10.0) / 6) {}
  uint64_t Next(std::mt19937_64& random) { return static_cast<uint64_t>(std::exp(log_(random))); }

 private:
  std::normal_distribution<double> log_;
};

// One interval of one initiator, 70 % reads, through recorder and collector.
IntervalDelta Record(bool open_loop, double decades) {
  const RecorderShape shape{.initiators = 1, .kinds = {true, true, false, false}, .open_loop = open_loop};
  IntervalRecorder recorder(shape, PagesFor(shape).wanted);
  IntervalCollector collector({{7}}, {shape});
  IntervalSet* set = recorder.TakeClean();
  set->begin = 0;
  set->end = kSecond;
  set->primary_in_window = open_loop;
  std::mt19937_64 random(1);
  Latencies reads(120e3, decades);
  Latencies writes(40e3, decades);
  Latencies waits(20e3, decades);
  Latencies late(8e3, 1.5);
  for (int i = 0; i < kOperations; ++i) {
    const OpKind kind = i % 10 < 7 ? OpKind::kRead : OpKind::kWrite;
    const uint64_t service = (kind == OpKind::kRead ? reads : writes).Next(random);
    uint64_t wait = 0;
    if (open_loop) {
      // Every operation is stamped due before it is issued; one in five found no free slot.
      const uint64_t lateness = late.Next(random);
      wait = i % 5 == 0 ? waits.Next(random) : lateness;
      if (i % 5 != 0) set->lateness[0].Record(lateness);
    }
    set->At(0, kind, open_loop).RecordOk(service + wait, wait, 4096);
  }
  set->initiators[0] = {.offered_integral = Uint128{32} * kSecond,
                        .wire_integral = Uint128{30} * kSecond,
                        .outstanding = 30,
                        .waiting = 2,
                        .oldest_age = 900'000,
                        .time_full = 1'000'000};
  REQUIRE(collector.Add(0, *set).ok());
  recorder.GiveBack(set);
  auto delta = collector.Next();
  REQUIRE(delta.has_value());
  REQUIRE(delta->initiators.size() == 1);
  REQUIRE(delta->initiators[0].kinds.size() == 2);
  CHECK(delta->initiators[0].kinds[0].completed + delta->initiators[0].kinds[1].completed == kOperations);
  return *std::move(delta);
}

void CheckSize(bool open_loop, size_t bound) {
  for (const double decades : {2.0, 2.5, 3.0}) {
    const IntervalDelta delta = Record(open_loop, decades);
    const std::string bytes = ToProto(delta).SerializeAsString();
    INFO(decades << " decades: " << bytes.size() << " bytes");
    CHECK(bytes.size() <= bound);
    // What the agent takes for the size: never less, and close.
    const size_t wire = ToProto(delta).initiators(0).ByteSizeLong();
    const size_t taken = SizeOnWire(delta.initiators[0]);
    CHECK(taken >= wire);
    CHECK(taken <= wire + 1024);
    v1::IntervalDelta parsed;
    REQUIRE(parsed.ParseFromString(bytes));
    auto back = FromProto(parsed);
    REQUIRE(back.ok());
    CHECK(*back == delta);
  }
}

TEST_CASE("a closed-loop report of two kinds and 30 k operations takes at most 8 KiB") {
  CheckSize(false, kClosedBound);
}

TEST_CASE("an open-loop report of two kinds and 30 k operations takes at most 24 KiB") {
  CheckSize(true, kOpenBound);
}

// What stays in an interval beyond the bound is bounded itself, whatever the histograms are.
TEST_CASE("a report without counters is far within the bound") {
  InitiatorDelta delta{.initiator = 65535, .offered_integral = ~Uint128{0}, .wire_integral = ~Uint128{0}};
  delta.outstanding = delta.waiting = UINT64_MAX;
  delta.oldest_age = delta.time_full = kNever;
  EncodedHistogram largest;
  largest.moments = {.count = UINT64_MAX,
                     .sum = UINT64_MAX,
                     .sum_squares = ~Uint128{0},
                     .min = UINT64_MAX - 1,
                     .max = UINT64_MAX,
                     .overflow = UINT64_MAX};
  for (int k = 0; k < kOpKinds; ++k) {
    for (const bool due : {false, true}) {
      KindDelta& kind = delta.kinds.emplace_back();
      kind.kind = static_cast<OpKind>(k);
      kind.due_in_window = due;
      kind.completed = kind.bytes = UINT64_MAX;
      kind.response = kind.wait = kind.service = kind.unfinished = largest;
      for (int outcome = 1; outcome < kOutcomes; ++outcome) {
        kind.errors.push_back({static_cast<Outcome>(outcome), -1, UINT64_MAX, largest});
      }
    }
  }
  delta.lateness = largest;
  delta.held = true;
  IntervalDelta interval;
  interval.initiators.push_back(delta);
  const size_t wire = ToProto(interval).initiators(0).ByteSizeLong();
  CHECK(wire <= SizeOnWire(delta));
  CHECK(wire <= size_t{16} << 10);
}

}  // namespace
}  // namespace muster
