#include "agent/engine/open_queue.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

namespace muster {
namespace {

std::vector<Pacer> Streams(size_t count) {
  std::vector<Pacer> pacers;
  for (size_t i = 0; i < count; ++i) {
    pacers.emplace_back(i % 2 == 0 ? Pacing::kPoisson : Pacing::kFixed, 100.0 + 37.0 * static_cast<double>(i), i, 0);
  }
  return pacers;
}

TEST_CASE("operations come in order of due, each stream's own arrivals, after any backlog") {
  for (const size_t streams : {1u, 2u, 7u, 16u}) {
    OpenQueue queue(Streams(streams), 4);
    queue.StartAt(1000);
    std::vector<Nanos> counted;
    for (int i = 0; i < 5000; ++i) {
      counted.push_back(queue.NextArrival());
      queue.Arrive(false);
    }
    CHECK(std::is_sorted(counted.begin(), counted.end()));
    CHECK(queue.waiting() == 5000);
    std::vector<Pacer> reference = Streams(streams);
    for (Pacer& pacer : reference) pacer.StartAt(1000);
    for (int i = 0; i < 5000; ++i) {
      CHECK(queue.OldestDue() == counted[i]);
      const OpenQueue::Operation op = queue.Take();
      CHECK(op.due == counted[i]);
      CHECK(op.due == reference[op.stream].Next());
      reference[op.stream].Advance();
      CHECK_FALSE(op.found_free);
    }
    CHECK(queue.waiting() == 0);
  }
}

TEST_CASE("who found a free slot is remembered one by one") {
  OpenQueue queue(Streams(3), 4);
  std::vector<bool> found;
  Rng rng(9);
  size_t taken = 0;
  for (int round = 0; round < 2000; ++round) {
    size_t open = static_cast<size_t>(std::count(found.begin() + static_cast<ptrdiff_t>(taken), found.end(), true));
    for (uint64_t n = rng.Below(4); n > 0; --n) {
      const bool free = open < 4 && rng.Below(2) == 0;
      open += free ? 1 : 0;
      queue.Arrive(free);
      found.push_back(free);
    }
    for (uint64_t n = rng.Below(4); n > 0 && queue.waiting() > 0; --n) CHECK(queue.Take().found_free == found[taken++]);
  }
  CHECK(taken > 1000);
}

TEST_CASE("after Stop nothing arrives, what was counted can be taken") {
  OpenQueue queue(Streams(2), 4);
  queue.Arrive(true);
  queue.Arrive(false);
  queue.Stop();
  CHECK(queue.NextArrival() == kNever);
  CHECK(queue.Take().found_free);
  CHECK_FALSE(queue.Take().found_free);
  CHECK(queue.waiting() == 0);
}

}  // namespace
}  // namespace muster
