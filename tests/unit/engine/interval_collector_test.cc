#include "agent/engine/interval_collector.h"

#include <catch2/catch.hpp>

namespace muster {
namespace {

RecorderShape Shape(uint32_t initiators, bool open = false) {
  return {.initiators = initiators, .kinds = {true, true, false, false}, .open_loop = open};
}

using Slots = std::vector<std::vector<uint32_t>>;  // initiators of each worker

// Recorders of several workers and the collector that takes their sets.
struct Rig {
  explicit Rig(Slots initiators, bool open = false) : collector(initiators, Shapes(initiators, open)) {
    for (const auto& slots : initiators) {
      const RecorderShape shape = Shape(static_cast<uint32_t>(slots.size()), open);
      recorders.push_back(std::make_unique<IntervalRecorder>(shape, PagesFor(shape).wanted));
    }
  }
  static std::vector<RecorderShape> Shapes(const Slots& initiators, bool open) {
    std::vector<RecorderShape> shapes;
    for (const auto& slots : initiators) shapes.push_back(Shape(static_cast<uint32_t>(slots.size()), open));
    return shapes;
  }
  IntervalSet* New(size_t worker, int64_t interval) {
    IntervalSet* set = recorders[worker]->TakeClean();
    set->interval = interval;
    set->begin = interval * kSecond;
    set->end = (interval + 1) * kSecond;
    return set;
  }
  void Hand(size_t worker, IntervalSet* set) {
    REQUIRE(collector.Add(worker, *set).ok());
    recorders[worker]->GiveBack(set);
  }
  std::vector<std::unique_ptr<IntervalRecorder>> recorders;
  IntervalCollector collector;
};

TEST_CASE("an interval is complete when every worker has closed it") {
  Rig rig(Slots{{0}, {0, 1}});
  IntervalSet* a = rig.New(0, 0);
  a->At(0, OpKind::kRead, false).RecordOk(1000, 0, 10);
  a->initiators[0] = {
      .offered_integral = 5, .wire_integral = 4, .outstanding = 3, .waiting = 1, .oldest_age = 9, .time_full = 7};
  a->edge_error = 3;
  a->stamp_error = 9;
  rig.Hand(0, a);
  CHECK_FALSE(rig.collector.Next().has_value());
  IntervalSet* b = rig.New(1, 0);
  b->end += 5;
  b->At(0, OpKind::kRead, false).RecordOk(3000, 0, 20);
  b->At(1, OpKind::kWrite, false).RecordOk(2000, 0, 30);
  b->initiators[0] = {
      .offered_integral = 1, .wire_integral = 1, .outstanding = 2, .waiting = 0, .oldest_age = 11, .time_full = 2};
  b->edge_error = 4;
  b->stamp_error = 2;
  rig.Hand(1, b);
  const auto delta = rig.collector.Next();
  REQUIRE(delta.has_value());
  CHECK(delta->interval == 0);
  CHECK(delta->length == kSecond + 5);
  CHECK(delta->edge_error == 4);
  CHECK(delta->stamp_error == 9);
  REQUIRE(delta->initiators.size() == 2);
  const InitiatorDelta& zero = delta->initiators[0];
  CHECK(zero.initiator == 0);
  CHECK(zero.offered_integral == 6);
  CHECK(zero.wire_integral == 5);
  CHECK(zero.outstanding == 5);
  CHECK(zero.waiting == 1);
  CHECK(zero.oldest_age == 11);
  CHECK(zero.time_full == 7);
  REQUIRE(zero.kinds.size() == 1);
  CHECK(zero.kinds[0].completed == 2);
  CHECK(zero.kinds[0].bytes == 30);
  CHECK(zero.kinds[0].response.moments.sum == 4000);
  CHECK(zero.kinds[0].wait.moments.count == 0);
  CHECK(Histogram::Decode(zero.kinds[0].response).ok());
  CHECK(delta->initiators[1].kinds[0].kind == OpKind::kWrite);
  CHECK_FALSE(rig.collector.Next().has_value());
}

TEST_CASE("a worker whose waits were all zero is written out beside one whose were not") {
  for (const size_t waiting : {0u, 1u}) {
    Rig rig(Slots{{0}, {0}});
    for (size_t w = 0; w < 2; ++w) {
      IntervalSet* set = rig.New(w, 0);
      for (int i = 0; i < 10; ++i) set->At(0, OpKind::kRead, false).RecordOk(1000, w == waiting && i < 4 ? 300 : 0, 1);
      rig.Hand(w, set);
    }
    const auto delta = rig.collector.Next();
    REQUIRE(delta.has_value());
    const KindDelta& read = delta->initiators[0].kinds[0];
    CHECK(read.completed == 20);
    CHECK(read.response.moments.count == 20);
    CHECK(read.wait.moments.count == 20);
    CHECK(read.service.moments.count == 20);
    CHECK(read.wait.moments.sum == 4 * 300);
    CHECK(read.wait.moments.min == 0);
    CHECK(read.service.moments.sum == 20 * 1000 - 4 * 300);
    for (const EncodedHistogram* h : {&read.response, &read.wait, &read.service}) CHECK(Histogram::Decode(*h).ok());
  }
}

TEST_CASE("open loop always has all three histograms") {
  Rig rig(Slots{{0}}, true);
  IntervalSet* set = rig.New(0, 0);
  set->At(0, OpKind::kRead, true).RecordOk(1000, 0, 1);
  set->At(0, OpKind::kRead, false).RecordOk(2000, 50, 1);
  set->lateness[0].Record(8);
  rig.Hand(0, set);
  const auto delta = rig.collector.Next();
  REQUIRE(delta.has_value());
  REQUIRE(delta->initiators[0].kinds.size() == 2);
  for (const KindDelta& kind : delta->initiators[0].kinds) {
    CHECK(kind.wait.moments.count == 1);
    CHECK(kind.service.moments.count == 1);
    CHECK(kind.wait.moments.sum == (kind.due_in_window ? 0 : 50));
  }
  CHECK(delta->initiators[0].lateness.moments.sum == 8);
}

TEST_CASE("what not every worker closed goes into the drain, so sums hold") {
  Rig rig(Slots{{0}, {1}});
  for (size_t w = 0; w < 2; ++w) {
    IntervalSet* set = rig.New(w, 0);
    set->At(0, OpKind::kRead, false).RecordOk(1000, 0, 1);
    rig.Hand(w, set);
  }
  IntervalSet* ahead = rig.New(1, 1);
  ahead->At(0, OpKind::kRead, false).RecordOk(1000, 0, 1);
  ahead->At(0, OpKind::kRead, false).RecordFailure(Outcome::kIo, 5, 700);
  rig.Hand(1, ahead);
  for (size_t w = 0; w < 2; ++w) {
    IntervalSet* set = rig.New(w, 2);
    set->drain = true;
    set->At(0, OpKind::kRead, false).RecordOk(1000, 0, 1);
    set->At(0, OpKind::kRead, false).RecordFailure(Outcome::kIo, 6, 800);
    set->At(0, OpKind::kRead, false).RecordUnfinished(9000);
    rig.Hand(w, set);
  }
  CHECK(rig.collector.Next().has_value());
  CHECK_FALSE(rig.collector.Next().has_value());
  const auto drain = rig.collector.Finish();
  REQUIRE(drain.ok());
  CHECK(drain->drain);
  CHECK(drain->interval == 1);
  CHECK(rig.collector.last_interval() == 0);
  REQUIRE(drain->initiators.size() == 2);
  CHECK(drain->initiators[0].kinds[0].completed == 1);
  CHECK(drain->initiators[1].kinds[0].completed == 2);
  REQUIRE(drain->initiators[1].kinds[0].errors.size() == 1);
  CHECK(drain->initiators[1].kinds[0].errors[0].count == 2);
  CHECK(drain->initiators[1].kinds[0].unfinished.moments.sum == 9000);
}

TEST_CASE("a gap needs a witness and that no worker ran") {
  Rig rig(Slots{{0}, {1}});
  rig.collector.NoteStop(kSecond - 1, 4 * kSecond);
  for (int64_t k = 0; k < 5; ++k) {
    for (size_t w = 0; w < 2; ++w) {
      IntervalSet* set = rig.New(w, k);
      set->missed = k >= 1 && !(k == 2 && w == 1);
      rig.Hand(w, set);
    }
  }
  for (int64_t k = 0; k < 5; ++k) {
    const auto delta = rig.collector.Next();
    REQUIRE(delta.has_value());
    CHECK(delta->gap == (k == 1 || k == 3));
    CHECK(delta->length == kSecond);
  }
}

TEST_CASE("totals are the counters of the newest sets; a stuck worker's missing operations are abandoned") {
  Rig rig(Slots{{0}, {0, 3}});
  IntervalSet* a = rig.New(0, 0);
  a->initiators[0].totals[0] = {
      .submitted = 10, .completed = 7, .failed = 1, .aborted = 0, .abandoned = 0, .bytes = 70};
  rig.Hand(0, a);
  IntervalSet* b = rig.New(1, 0);
  b->initiators[0].totals[0] = {.submitted = 5, .completed = 5, .failed = 0, .aborted = 0, .abandoned = 0, .bytes = 50};
  b->initiators[1].totals[1] = {.submitted = 2, .completed = 1, .failed = 0, .aborted = 0, .abandoned = 1, .bytes = 10};
  rig.Hand(1, b);
  const auto totals = rig.collector.Totals({true, false});
  REQUIRE(totals.size() == 2);
  CHECK(totals[0].kinds[0] ==
        KindTotals{.submitted = 15, .completed = 12, .failed = 1, .aborted = 0, .abandoned = 2, .bytes = 120});
  CHECK(totals[1].initiator == 3);
  CHECK(totals[1].kinds[1].abandoned == 1);
  CHECK(rig.collector.BytesWritten() == 10);
}

TEST_CASE("recorders go round: four sets, cleared, pages kept") {
  const RecorderShape shape = Shape(1);
  IntervalRecorder recorder(shape, PagesFor(shape).wanted);
  for (int round = 0; round < 3; ++round) {
    std::vector<IntervalSet*> sets;
    for (int i = 0; i < IntervalRecorder::kSets; ++i) {
      sets.push_back(recorder.TakeClean());
      REQUIRE(sets.back() != nullptr);
      CHECK(sets.back()->At(0, OpKind::kRead, false).empty());
      CHECK(sets.back()->initiators[0].outstanding == 0);
      sets.back()->At(0, OpKind::kRead, false).RecordOk(5, 0, 1);
      sets.back()->At(0, OpKind::kRead, false).RecordFailure(Outcome::kIo, 1, 5);
      sets.back()->initiators[0].outstanding = 7;
      recorder.Publish(sets.back());
    }
    CHECK(recorder.TakeClean() == nullptr);
    for (IntervalSet* expected : sets) {
      IntervalSet* set = recorder.TakeFull();
      CHECK(set == expected);
      CHECK(set->Lost() == 0);
      recorder.GiveBack(set);
    }
    CHECK(recorder.TakeFull() == nullptr);
  }
}

TEST_CASE("values that find no page are counted, and the histogram is refused by every decoder") {
  const RecorderShape shape = Shape(1);
  IntervalRecorder recorder(shape, 1);
  IntervalSet* set = recorder.TakeClean();
  set->At(0, OpKind::kRead, false).RecordOk(5, 0, 1);
  set->At(0, OpKind::kRead, false).RecordOk(5'000'000, 0, 1);
  CHECK(set->Lost() == 1);
  const auto delta = set->At(0, OpKind::kRead, false).ToDelta(OpKind::kRead, false, false);
  REQUIRE(delta.ok());
  CHECK_FALSE(Histogram::Decode(delta->response).ok());
}

}  // namespace
}  // namespace muster
