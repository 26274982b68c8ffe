#include "common/wire/outbound_queue.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace muster {
namespace {

using Queue = OutboundQueue<std::string>;

struct Stream {
  explicit Stream(Queue::Limits limits)
      : queue(
            limits, [](const std::string& m) { return m.size(); },
            [this](const std::string& m) { started.push_back(m); }, [this] { ++finished; }) {}
  std::vector<std::string> started;
  int finished = 0;
  Queue queue;
};

TEST_CASE("one write is in flight, the rest follow in order") {
  Stream s({});
  CHECK(s.queue.Push("a"));
  CHECK(s.queue.Push("b"));
  CHECK(s.queue.Push("c"));
  CHECK(s.started == std::vector<std::string>{"a"});
  s.queue.OnWriteDone(true);
  CHECK(s.started == std::vector<std::string>{"a", "b"});
  s.queue.OnWriteDone(true);
  s.queue.OnWriteDone(true);
  CHECK(s.started == std::vector<std::string>{"a", "b", "c"});
  CHECK(s.queue.size() == 0);
  CHECK(s.queue.bytes() == 0);
  CHECK(s.finished == 0);
}

TEST_CASE("both bounds refuse, and room comes back") {
  Stream s({.messages = 3, .bytes = 10});
  CHECK(s.queue.Push("1234"));
  CHECK(s.queue.Push("5678"));
  CHECK_FALSE(s.queue.Push("90a"));  // bytes
  CHECK(s.queue.Push("9"));
  CHECK_FALSE(s.queue.Push(""));  // messages
  s.queue.OnWriteDone(true);
  CHECK(s.queue.Push("90a"));
  CHECK(s.queue.bytes() == 8);
}

TEST_CASE("an empty queue takes one message of any size") {
  Stream s({.messages = 3, .bytes = 2});
  CHECK(s.queue.Push("large"));
  CHECK_FALSE(s.queue.Push("x"));
}

TEST_CASE("finish comes after the last write, once") {
  Stream s({});
  s.queue.Push("a");
  s.queue.Push("b");
  s.queue.Finish();
  CHECK_FALSE(s.queue.Push("late"));
  CHECK(s.finished == 0);
  s.queue.OnWriteDone(true);
  CHECK(s.finished == 0);
  s.queue.OnWriteDone(true);
  CHECK(s.finished == 1);
  s.queue.Finish();
  s.queue.Abandon();
  CHECK(s.finished == 1);
}

TEST_CASE("finish of an idle queue comes at once") {
  Stream s({});
  s.queue.Finish();
  CHECK(s.finished == 1);
}

TEST_CASE("a broken stream drops what is queued and still finishes") {
  Stream s({});
  s.queue.Push("a");
  s.queue.Push("b");
  s.queue.OnWriteDone(false);
  CHECK(s.started == std::vector<std::string>{"a"});
  CHECK(s.queue.size() == 0);
  CHECK_FALSE(s.queue.Push("c"));
  s.queue.Finish();
  CHECK(s.finished == 1);
}

TEST_CASE("abandon waits only for the write in flight") {
  Stream s({});
  s.queue.Push("a");
  s.queue.Push("b");
  s.queue.Finish();
  s.queue.Abandon();
  CHECK(s.finished == 0);
  s.queue.OnWriteDone(true);
  CHECK(s.finished == 1);
  CHECK(s.started == std::vector<std::string>{"a"});
}

TEST_CASE("a write that is done at once does not recurse into a second one in flight") {
  Queue* self = nullptr;
  int in_flight = 0;
  int written = 0;
  Queue queue(
      {}, [](const std::string& m) { return m.size(); },
      [&](const std::string&) {
        REQUIRE(++in_flight == 1);
        ++written;
        --in_flight;
        self->OnWriteDone(true);
      },
      [] {});
  self = &queue;
  for (int i = 0; i < 100; ++i) CHECK(queue.Push("m"));
  CHECK(written == 100);
}

// A transport thread completes writes while several threads push: no write is lost, none overlaps, the order of each
// pusher is kept, and finish is the last thing that happens.
TEST_CASE("threads push while another completes") {
  struct Message {
    int thread, number;
  };
  constexpr int kThreads = 4;
  constexpr int kEach = 2'000;
  std::mutex mutex;
  std::condition_variable ready;
  int to_complete = 0;
  bool ended = false;
  std::atomic<int> in_flight{0};
  std::atomic<bool> overlapped{false};
  std::vector<Message> written;
  std::atomic<int> finished{0};
  OutboundQueue<Message> queue(
      {.messages = 64, .bytes = 1 << 20}, [](const Message&) { return size_t{16}; },
      [&](const Message& m) {
        if (in_flight.fetch_add(1) != 0) overlapped = true;
        std::lock_guard lock(mutex);
        written.push_back(m);
        ++to_complete;
        ready.notify_one();
      },
      [&] {
        std::lock_guard lock(mutex);
        ++finished;
        ended = true;
        ready.notify_one();
      });
  std::thread transport([&] {
    for (;;) {
      std::unique_lock lock(mutex);
      ready.wait(lock, [&] { return to_complete > 0 || ended; });
      if (to_complete == 0) return;
      --to_complete;
      lock.unlock();
      in_flight.fetch_sub(1);
      queue.OnWriteDone(true);
    }
  });
  std::vector<std::thread> pushers;
  pushers.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    pushers.emplace_back([&, t] {
      for (int i = 0; i < kEach;) {
        if (queue.Push({t, i})) {
          ++i;
        } else {
          std::this_thread::yield();
        }
      }
    });
  }
  for (auto& thread : pushers) thread.join();
  queue.Finish();
  transport.join();
  CHECK_FALSE(overlapped);
  CHECK(finished == 1);
  REQUIRE(written.size() == static_cast<size_t>(kThreads * kEach));
  std::vector<int> next(kThreads, 0);
  bool in_order = true;
  for (const Message& m : written) in_order = in_order && m.number == next[m.thread]++;
  CHECK(in_order);
}

}  // namespace
}  // namespace muster
