#include "agent/backend/null_backend.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cmath>
#include <map>

#include "common/base/status.h"

namespace muster {
namespace {

std::unique_ptr<Backend> Opened(const NullTarget& target, uint32_t depth, uint64_t seed = 7) {
  auto backend = MakeNullBackend(target, seed);
  REQUIRE(backend->Open({}, {}, {.depth = depth}, kNever).ok());
  return backend;
}

std::vector<IoOp> Ops(size_t count, uint64_t first_tag = 0) {
  std::vector<IoOp> ops(count);
  for (size_t i = 0; i < count; ++i) ops[i] = {.tag = first_tag + i, .bytes = 4096};
  return ops;
}

// Reaps at each NextTimer until nothing is left; returns completion instants by tag, in order of completion.
std::vector<std::pair<uint64_t, Nanos>> RunDry(Backend& backend) {
  std::vector<std::pair<uint64_t, Nanos>> ended;
  std::array<IoCompletion, 8> out;
  while (backend.outstanding() > 0) {
    const Nanos at = backend.NextTimer();
    REQUIRE(at < kNever);
    const size_t n = backend.Reap(out, at);
    REQUIRE(n > 0);  // NextTimer is exact: something is due at it
    for (size_t i = 0; i < n; ++i) ended.emplace_back(out[i].tag, at);
  }
  return ended;
}

TEST_CASE("null: latency 0 completes at the next Reap, in order") {
  auto backend = Opened({}, 4);
  const auto ops = Ops(6);
  REQUIRE(backend->Submit(ops, 100) == 4);
  CHECK(backend->outstanding() == 4);
  CHECK(backend->Submit(std::span(ops).subspan(4), 100) == 0);
  std::array<IoCompletion, 3> out;
  REQUIRE(backend->Reap(out, 100) == 3);
  CHECK(out[0].tag == 0);
  CHECK(out[2].tag == 2);
  CHECK(out[0].bytes == 4096);
  CHECK(backend->Submit(std::span(ops).subspan(4), 101) == 2);
  REQUIRE(backend->Reap(out, 101) == 3);
  CHECK(out[0].tag == 3);
  CHECK(out[1].tag == 4);
  CHECK(out[2].tag == 5);
  CHECK(backend->outstanding() == 0);
  CHECK(backend->NextTimer() == kNever);
  CHECK(backend->Close());
}

TEST_CASE("null: constant latency ends exactly latency after submission") {
  auto backend = Opened({.latency = 50}, 4);
  REQUIRE(backend->Submit(Ops(1), 100) == 1);
  REQUIRE(backend->Submit(Ops(1, 1), 120) == 1);
  std::array<IoCompletion, 4> out;
  CHECK(backend->NextTimer() == 150);
  CHECK(backend->Reap(out, 149) == 0);
  CHECK(backend->Reap(out, 150) == 1);
  CHECK(backend->NextTimer() == 170);
  CHECK(backend->Reap(out, 500) == 1);
}

TEST_CASE("null: uniform and exponential latencies have the asked mean and complete in order of time") {
  for (const LatencyShape shape : {LatencyShape::kUniform, LatencyShape::kExponential}) {
    constexpr uint32_t kOps = 20'000;
    constexpr Nanos kMean = 100 * kMicrosecond;
    auto backend = Opened({.latency = kMean, .shape = shape}, kOps);
    REQUIRE(backend->Submit(Ops(kOps), 0) == kOps);
    const auto ended = RunDry(*backend);
    REQUIRE(ended.size() == kOps);
    CHECK(std::is_sorted(ended.begin(), ended.end(), [](const auto& a, const auto& b) { return a.second < b.second; }));
    double sum = 0;
    double squares = 0;
    for (const auto& [tag, at] : ended) {
      sum += static_cast<double>(at);
      squares += static_cast<double>(at) * static_cast<double>(at);
    }
    const double mean = sum / kOps;
    const double deviation = std::sqrt(squares / kOps - mean * mean);
    // Four standard errors of the mean; the seed is fixed, so this cannot flicker.
    const double nominal_deviation = shape == LatencyShape::kUniform ? kMean / std::sqrt(3.0) : double{kMean};
    CHECK(std::abs(mean - kMean) < 4 * nominal_deviation / std::sqrt(double{kOps}));
    CHECK(deviation == Approx(nominal_deviation).epsilon(0.05));
    if (shape == LatencyShape::kUniform) CHECK(ended.back().second <= 2 * kMean);
  }
}

TEST_CASE("null: the same seed gives the same latencies and errors, another seed others") {
  const NullTarget target{.latency = 1000, .shape = LatencyShape::kExponential, .error_share = 0.3};
  std::vector<std::vector<std::pair<uint64_t, Nanos>>> runs;
  for (const uint64_t seed : {1, 1, 2}) {
    auto backend = Opened(target, 100, seed);
    REQUIRE(backend->Submit(Ops(100), 0) == 100);
    runs.push_back(RunDry(*backend));
  }
  CHECK(runs[0] == runs[1]);
  CHECK(runs[0] != runs[2]);
}

TEST_CASE("null: the asked share of operations ends with EIO") {
  constexpr uint32_t kOps = 10'000;
  for (const double share : {0.0, 0.25, 1.0}) {
    auto backend = Opened({.error_share = share}, kOps);
    REQUIRE(backend->Submit(Ops(kOps), 0) == kOps);
    std::vector<IoCompletion> out(kOps);
    REQUIRE(backend->Reap(out, 0) == kOps);
    uint32_t failed = 0;
    for (const IoCompletion& c : out) {
      if (c.outcome == IoOutcome::kOk) continue;
      ++failed;
      REQUIRE(c.outcome == IoOutcome::kIo);
      REQUIRE(c.native_code == EIO);
      REQUIRE(c.bytes == 0);
    }
    CHECK(std::abs(failed - share * kOps) <= 4 * std::sqrt(share * (1 - share) * kOps));
  }
}

TEST_CASE("null: nothing completes inside a stall, everything held completes at its end") {
  // Stalls count from the phase's start; the second and third overlap and act as one, [3500, 4800).
  auto backend = Opened({.latency = 10, .stalls = {{1000, 500}, {3000, 800}, {2500, 1000}}}, 8);
  std::array<IoCompletion, 8> out;
  REQUIRE(backend->Submit(Ops(1), 995) == 1);
  REQUIRE(backend->Reap(out, 1005) == 1);  // no phase has started: no stall
  backend->PhaseStarts(1000);              // stalls: [2000, 2500), [3500, 4800)

  REQUIRE(backend->Submit(Ops(1), 1985) == 1);
  CHECK(backend->NextTimer() == 1995);
  REQUIRE(backend->Reap(out, 1995) == 1);
  REQUIRE(backend->Submit(Ops(2), 1990) == 2);  // due 2000, the first instant of the stall
  CHECK(backend->NextTimer() == 2500);
  CHECK(backend->Reap(out, 2000) == 0);
  CHECK(backend->Reap(out, 2499) == 0);
  CHECK(backend->NextTimer() == 2500);
  CHECK(backend->Reap(out, 2500) == 2);

  REQUIRE(backend->Submit(Ops(1), 3400) == 1);  // due before the stall, but nobody looks until it has begun
  CHECK(backend->Reap(out, 3600) == 0);
  CHECK(backend->NextTimer() == 4800);
  CHECK(backend->Reap(out, 4799) == 0);
  CHECK(backend->Reap(out, 4800) == 1);
  REQUIRE(backend->Submit(Ops(1), 9000) == 1);
  CHECK(backend->NextTimer() == 9010);
  CHECK(backend->Reap(out, 9010) == 1);
}

TEST_CASE("null: queue_limit bounds what is accepted and shows as depth") {
  auto backend = Opened({.queue_limit = 3}, 8);
  CHECK(backend->Describe().max_outstanding == 3);
  CHECK(backend->Submit(Ops(8), 0) == 3);
  CHECK(Opened({.queue_limit = 100}, 8)->Describe().max_outstanding == 8);
}

TEST_CASE("null: hang keeps operations until Abort") {
  for (const LatencyShape shape : {LatencyShape::kConstant, LatencyShape::kExponential}) {
    auto backend = Opened({.latency = 100, .shape = shape, .hang = true}, 4);
    REQUIRE(backend->Submit(Ops(4), 0) == 4);
    std::array<IoCompletion, 8> out;
    CHECK(backend->Reap(out, kHour) == 0);
    CHECK(backend->NextTimer() == kNever);
    CHECK_FALSE(backend->Close());
    backend->Abort();
    REQUIRE(backend->Reap(out, kHour) == 4);
    for (size_t i = 0; i < 4; ++i) {
      CHECK(out[i].outcome == IoOutcome::kAborted);
      CHECK(out[i].tag == i);
    }
    CHECK(backend->Close());
  }
}

TEST_CASE("null: Abort ends what a stall holds, later operations take their time") {
  for (const LatencyShape shape : {LatencyShape::kConstant, LatencyShape::kUniform}) {
    auto backend = Opened({.latency = 100, .shape = shape, .stalls = {{0, 10'000}}}, 8);
    backend->PhaseStarts(0);
    REQUIRE(backend->Submit(Ops(3), 0) == 3);
    std::array<IoCompletion, 8> out;
    CHECK(backend->Reap(out, 5000) == 0);
    backend->Abort();
    REQUIRE(backend->Submit(Ops(1, 3), 5000) == 1);
    REQUIRE(backend->Reap(out, 5000) == 3);
    for (size_t i = 0; i < 3; ++i) CHECK(out[i].outcome == IoOutcome::kAborted);
    REQUIRE(backend->Reap(out, 10'000) == 1);
    CHECK(out[0].outcome == IoOutcome::kOk);
    CHECK(out[0].tag == 3);
  }
}

TEST_CASE("null: a depth of 0 is refused") {
  auto backend = MakeNullBackend({}, 1);
  const absl::Status status = backend->Open({}, {}, {.depth = 0}, kNever);
  CHECK(GetErrorInfo(status).code == "BACKEND_DEPTH");
}

TEST_CASE("null: WaitUntil ends at the next completion or the deadline, not before") {
  auto backend = Opened({.latency = 2 * kMillisecond}, 1);
  const SteadyClock& clock = SteadyClock::Get();
  const Nanos begin = clock.Now();
  REQUIRE(backend->Submit(Ops(1), begin) == 1);
  backend->WaitUntil(begin + kMillisecond);
  CHECK(clock.Now() >= begin + kMillisecond);
  const Nanos due = backend->NextTimer();
  backend->WaitUntil(begin + kMinute);
  std::array<IoCompletion, 1> out;
  const Nanos now = clock.Now();
  CHECK(now >= due);
  CHECK(now < begin + 10 * kSecond);
  CHECK(backend->Reap(out, now) == 1);
}

}  // namespace
}  // namespace muster
