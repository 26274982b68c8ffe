// How every backend waits, aborts and closes.
#include <poll.h>

#include <array>
#include <catch2/catch.hpp>

#include "tests/conformance/backend/environment.h"

namespace muster::test {
namespace {

constexpr uint64_t kSize = 4 << 20;

std::vector<IoOp> Reads(Rig& rig, uint32_t count) {
  std::vector<IoOp> ops;
  for (uint32_t i = 0; i < count; ++i) ops.push_back(rig.Op(IoKind::kRead, 4096 * uint64_t{i}, 4096, i));
  return ops;
}

TEST_CASE("WaitUntil wakes when an operation ends") {
  FOR_EACH_ENVIRONMENT(env);
  auto rig = env.Make(1, kSize);
  Backend& backend = rig->backend();
  const Clock& clock = SteadyClock::Get();
  // A wait that missed completions would take its longest wait, a second, each time.
  constexpr int kRounds = 20;
  const Nanos begin = clock.Now();
  for (int i = 0; i < kRounds; ++i) {
    REQUIRE(backend.Submit(Reads(*rig, 1), clock.Now()) == 1);
    std::array<IoCompletion, 1> out;
    while (backend.Reap(out, clock.Now()) == 0) {
      REQUIRE(clock.Now() < begin + kMinute);
      backend.WaitUntil(clock.Now() + 30 * kSecond);
    }
  }
  CHECK(clock.Now() - begin < kRounds * kSecond / 2);
}

TEST_CASE("WaitUntil ends at its deadline, and sleeps until then") {
  FOR_EACH_ENVIRONMENT(env);
  auto rig = env.MakeHanging(2);
  Backend& backend = rig->backend();
  const Clock& clock = SteadyClock::Get();
  REQUIRE(backend.Submit(Reads(*rig, 2), clock.Now()) == 2);
  const Nanos deadline = clock.Now() + 30 * kMillisecond;
  int waits = 0;
  while (clock.Now() < deadline) {
    backend.WaitUntil(deadline);
    ++waits;
  }
  CHECK(waits < 20);
  CHECK(clock.Now() < deadline + 10 * kSecond);
  backend.WaitUntil(deadline);  // past: returns at once
  std::array<IoCompletion, 2> out;
  CHECK(backend.Reap(out, clock.Now()) == 0);
  CHECK(backend.outstanding() == 2);
  backend.Abort();
  CHECK(rig->Collect(2).size() == 2);
}

TEST_CASE("Reap does not block") {
  FOR_EACH_ENVIRONMENT(env);
  auto rig = env.MakeHanging(2);
  Backend& backend = rig->backend();
  const Clock& clock = SteadyClock::Get();
  std::array<IoCompletion, 2> out;
  CHECK(backend.Reap(out, clock.Now()) == 0);
  REQUIRE(backend.Submit(Reads(*rig, 2), clock.Now()) == 2);
  for (int i = 0; i < 1000; ++i) REQUIRE(backend.Reap(out, clock.Now()) == 0);  // a block here would be the time limit
  backend.Abort();
  CHECK(rig->Collect(2).size() == 2);
}

TEST_CASE("Abort ends operations that hang, and the backend works on") {
  FOR_EACH_ENVIRONMENT(env);
  for (const uint32_t depth : {1u, 12u}) {
    auto rig = env.MakeHanging(depth);
    Backend& backend = rig->backend();
    backend.Abort();  // nothing there yet
    for (int round = 0; round < 2; ++round) {
      rig->SubmitAll(Reads(*rig, depth));
      backend.Abort();
      for (const IoCompletion& c : rig->Collect(depth)) {
        CHECK(c.outcome == IoOutcome::kAborted);
        CHECK(c.native_code != 0);
      }
      CHECK(backend.outstanding() == 0);
    }
    CHECK(backend.Close());
  }
}

TEST_CASE("Abort in the middle of I/O brings every operation back") {
  FOR_EACH_ENVIRONMENT(env);
  auto rig = env.Make(64, kSize);
  Backend& backend = rig->backend();
  for (int round = 0; round < 10; ++round) {
    std::vector<IoOp> ops = Reads(*rig, 64);
    ops[7].kind = IoKind::kFlush;
    ops[9].kind = IoKind::kTrim;
    rig->SubmitAll(ops);
    backend.Abort();
    std::array<bool, 64> seen{};
    for (const IoCompletion& c : rig->Collect(64)) {
      CHECK((c.outcome == IoOutcome::kOk || c.outcome == IoOutcome::kAborted));
      REQUIRE_FALSE(seen.at(c.tag));
      seen.at(c.tag) = true;
    }
    CHECK(backend.outstanding() == 0);
  }
  CHECK(backend.Close());
}

TEST_CASE("Close with operations outstanding says so and leaves their memory alone, or ends them") {
  FOR_EACH_ENVIRONMENT(env);
  auto rig = env.MakeHanging(3);
  REQUIRE(rig->backend().Submit(Reads(*rig, 3), SteadyClock::Get().Now()) == 3);
  if (env.is_connection()) {
    CHECK(rig->backend().Close());
    CHECK(rig->backend().Close());
    CHECK(rig->backend().outstanding() == 0);
    return;
  }
  CHECK_FALSE(rig->backend().Close());
  CHECK_FALSE(rig->backend().Close());
  rig->AbandonPool();
}

TEST_CASE("Close without operations frees everything, twice is fine") {
  FOR_EACH_ENVIRONMENT(env);
  auto rig = env.Make(3, kSize);
  CHECK(rig->Run(Reads(*rig, 3)).size() == 3);
  CHECK(rig->backend().Close());
  CHECK(rig->backend().Close());
}

TEST_CASE("WaitFd becomes readable when Reap has something") {
  FOR_EACH_ENVIRONMENT(env);
  auto rig = env.MakeHanging(4);
  Backend& backend = rig->backend();
  const Clock& clock = SteadyClock::Get();
  if (env.driven_by_time()) {
    CHECK(backend.WaitFd() == -1);
    return;
  }
  std::array<IoCompletion, 1> out;
  pollfd readable{.fd = backend.WaitFd(), .events = POLLIN, .revents = 0};
  REQUIRE(readable.fd >= 0);
  CHECK(backend.WaitFd() == readable.fd);
  for (int round = 0; round < 50; ++round) {
    REQUIRE(backend.Submit(Reads(*rig, 4), clock.Now()) == 4);
    // Stale readiness is allowed, but Reap clears it: with nothing finished it does not spin.
    int polls = 0;
    while (poll(&readable, 1, 0) == 1) {
      REQUIRE(++polls < 100);
      REQUIRE(backend.Reap(out, clock.Now()) == 0);
    }
    rig->release();
    uint32_t ended = 0;
    while (ended < 4) {  // one completion a Reap: the rest must keep it readable
      REQUIRE(poll(&readable, 1, 10'000) == 1);
      ended += static_cast<uint32_t>(backend.Reap(out, clock.Now()));
    }
  }
}

TEST_CASE("a failed operation makes WaitFd readable and ends the wait") {
  FOR_EACH_ENVIRONMENT(env);
  if (env.driven_by_time()) return;
  auto rig = env.Make(2, kSize);
  Backend& backend = rig->backend();
  pollfd readable{.fd = backend.WaitFd(), .events = POLLIN, .revents = 0};
  std::array<IoCompletion, 2> out;
  while (poll(&readable, 1, 0) == 1) REQUIRE(backend.Reap(out, 0) == 0);
  IoOp op = rig->Op(IoKind::kRead, 0, 4096);
  op.object = 9;
  const Nanos begin = SteadyClock::Get().Now();
  REQUIRE(backend.Submit({&op, 1}, begin) == 1);
  CHECK(poll(&readable, 1, 10'000) == 1);
  for (int i = 0; i < 20; ++i) backend.WaitUntil(begin + kHour);
  CHECK(SteadyClock::Get().Now() - begin < 10 * kSecond);
  REQUIRE(backend.Reap(out, 0) == 1);
  CHECK(out[0].outcome == IoOutcome::kOther);
}

}  // namespace
}  // namespace muster::test
