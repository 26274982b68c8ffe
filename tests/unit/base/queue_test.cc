#include "common/base/queue.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <thread>
#include <vector>

namespace muster {
namespace {

constexpr Nanos kPatience = 20 * kSecond;

TEST_CASE("a bounded queue refuses when full and leaves the item", "[queue]") {
  BoundedQueue<std::unique_ptr<int>> queue(2);
  CHECK(queue.TryPush(std::make_unique<int>(1)));
  CHECK(queue.TryPush(std::make_unique<int>(2)));
  auto third = std::make_unique<int>(3);
  CHECK_FALSE(queue.TryPush(std::move(third)));
  // A refused item is untouched by contract, which is what this tests.
  // NOLINTBEGIN(bugprone-use-after-move)
  REQUIRE(third != nullptr);
  CHECK(*third == 3);
  CHECK(**queue.Pop(kPatience) == 1);
  CHECK(queue.TryPush(std::move(third)));
  // NOLINTEND(bugprone-use-after-move)
  CHECK(queue.size() == 2);
}

TEST_CASE("a bounded queue pops nothing after its timeout", "[queue]") {
  BoundedQueue<int> queue(1);
  CHECK_FALSE(queue.Pop(0).has_value());
  CHECK_FALSE(queue.Pop(kMillisecond).has_value());
}

TEST_CASE("a closed queue drains, then answers nothing at once", "[queue]") {
  BoundedQueue<int> queue(4);
  queue.TryPush(1);
  queue.TryPush(2);
  queue.Close();
  CHECK(queue.closed());
  CHECK_FALSE(queue.TryPush(3));
  CHECK(*queue.Pop(kPatience) == 1);
  CHECK(*queue.Pop(kPatience) == 2);
  CHECK_FALSE(queue.Pop(kPatience).has_value());
}

TEST_CASE("closing wakes a waiting consumer", "[queue]") {
  BoundedQueue<int> queue(1);
  const Nanos start = SteadyClock::Get().Now();
  std::thread closer([&] { queue.Close(); });
  CHECK_FALSE(queue.Pop(kPatience).has_value());
  closer.join();
  CHECK(SteadyClock::Get().Now() - start < kPatience);
}

TEST_CASE("a bounded queue passes every item once between many threads", "[queue]") {
  constexpr int kItems = 5'000;
  constexpr int kThreads = 3;
  BoundedQueue<int> queue(16);
  std::vector<std::atomic<int>> seen(kItems * kThreads);
  std::vector<std::thread> producers;
  std::vector<std::thread> consumers;
  for (int t = 0; t < kThreads; ++t) {
    producers.emplace_back([&, t] {
      for (int i = 0; i < kItems; ++i) {
        while (!queue.TryPush(t * kItems + i)) std::this_thread::yield();
      }
    });
    consumers.emplace_back([&] {
      while (auto item = queue.Pop(kPatience)) ++seen[*item];
    });
  }
  for (std::thread& producer : producers) producer.join();
  queue.Close();
  for (std::thread& consumer : consumers) consumer.join();
  int wrong = 0;
  for (const auto& count : seen) wrong += count == 1 ? 0 : 1;
  CHECK(wrong == 0);
}

TEST_CASE("an SPSC ring holds its capacity, rounded up to a power of two", "[queue]") {
  SpscRing<int> ring(5);
  CHECK(ring.empty());
  for (int i = 0; i < 8; ++i) REQUIRE(ring.Push(i));
  CHECK_FALSE(ring.Push(8));
  for (int i = 0; i < 8; ++i) REQUIRE(*ring.Pop() == i);
  CHECK_FALSE(ring.Pop().has_value());
  CHECK(ring.empty());
}

TEST_CASE("an SPSC ring keeps order and contents between two threads", "[queue]") {
  constexpr uint64_t kItems = 100'000;
  // Heap items: a torn or early read would be a use of freed or half-written memory, which the sanitizers see.
  SpscRing<std::unique_ptr<uint64_t>> ring(8);
  std::thread producer([&] {
    for (uint64_t i = 0; i < kItems; ++i) {
      while (!ring.Push(std::make_unique<uint64_t>(i))) std::this_thread::yield();
    }
  });
  uint64_t next = 0;
  uint64_t wrong = 0;
  while (next < kItems) {
    const auto item = ring.Pop();
    if (!item.has_value()) {
      std::this_thread::yield();
      continue;
    }
    wrong += **item == next ? 0 : 1;
    ++next;
  }
  producer.join();
  CHECK(wrong == 0);
  CHECK(ring.empty());
}

TEST_CASE("two SPSC rings pass one object to and fro without a lock", "[queue]") {
  // The recorder swap: the object is plain memory, handed over only by the rings' release and acquire.
  struct Recorder {
    uint64_t values[64] = {};
  };
  constexpr int kRounds = 20'000;
  SpscRing<Recorder*> full(2);
  SpscRing<Recorder*> clean(2);
  Recorder a;
  Recorder b;
  clean.Push(&a);
  clean.Push(&b);
  std::thread worker([&] {
    for (int round = 0; round < kRounds;) {
      const auto recorder = clean.Pop();
      if (!recorder.has_value()) {
        std::this_thread::yield();
        continue;
      }
      for (uint64_t& value : (*recorder)->values) ++value;
      while (!full.Push(*recorder)) std::this_thread::yield();
      ++round;
    }
  });
  uint64_t total = 0;
  for (int round = 0; round < kRounds;) {
    const auto recorder = full.Pop();
    if (!recorder.has_value()) {
      std::this_thread::yield();
      continue;
    }
    for (uint64_t& value : (*recorder)->values) {
      total += value;
      value = 0;
    }
    while (!clean.Push(*recorder)) std::this_thread::yield();
    ++round;
  }
  worker.join();
  CHECK(total == uint64_t{64} * kRounds);
}

}  // namespace
}  // namespace muster
