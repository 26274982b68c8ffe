// The way a recorder travels: worker -> reporter -> worker through two SPSC rings, with no lock and no atomic of its
// own. Under ThreadSanitizer this proves that the rings alone order every access.
#include <catch2/catch.hpp>
#include <memory>
#include <thread>
#include <vector>

#include "common/base/queue.h"
#include "common/base/rng.h"
#include "common/stats/paged_recorder.h"

namespace muster {
namespace {

struct RecorderSet {
  explicit RecorderSet(PagePool* pool) : response(pool), wait(pool) {}
  PagedHistogram response;
  PagedHistogram wait;
};

TEST_CASE("a recorder swapped between worker and reporter loses nothing", "[swap]") {
  constexpr int kIntervals = 2'000;
  constexpr int kOpsPerInterval = 50;
  // Both sets share one pool: pages are taken by the worker only, whichever set it holds.
  PagePool pool(4 * hist::kOctaves);
  std::vector<std::unique_ptr<RecorderSet>> sets;
  SpscRing<RecorderSet*> full(2);
  SpscRing<RecorderSet*> clean(2);
  for (int i = 0; i < 2; ++i) {
    sets.push_back(std::make_unique<RecorderSet>(&pool));
    REQUIRE(clean.Push(sets.back().get()));
  }
  Histogram recorded;  // what the worker says it recorded, by another path
  std::thread worker([&] {
    Rng rng(71);
    for (int interval = 0; interval < kIntervals;) {
      const auto set = clean.Pop();
      if (!set.has_value()) {
        std::this_thread::yield();
        continue;
      }
      for (int i = 0; i < kOpsPerInterval; ++i) {
        const uint64_t value = rng.Next() >> (22 + rng.Below(42));
        (*set)->response.Record(value);
        (*set)->wait.Record(value / 2);
        recorded.Record(value);
      }
      while (!full.Push(*set)) std::this_thread::yield();
      ++interval;
    }
  });
  Histogram merged;
  uint64_t waits = 0;
  int refused = 0;
  for (int interval = 0; interval < kIntervals;) {
    const auto set = full.Pop();
    if (!set.has_value()) {
      std::this_thread::yield();
      continue;
    }
    refused += merged.Merge((*set)->response.Encode()).ok() ? 0 : 1;
    waits += (*set)->wait.moments().count;
    (*set)->response.Clear();
    (*set)->wait.Clear();
    while (!clean.Push(*set)) std::this_thread::yield();
    ++interval;
  }
  worker.join();
  CHECK(refused == 0);
  CHECK(merged == recorded);
  CHECK(waits == uint64_t{kIntervals} * kOpsPerInterval);
}

}  // namespace
}  // namespace muster
