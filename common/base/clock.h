#pragma once
#include <chrono>
#include <cstdint>

namespace muster {

// Instants and durations are nanoseconds in int64: 292 years, no conversion on the hot path.
using Nanos = int64_t;
inline constexpr Nanos kMicrosecond = 1'000;
inline constexpr Nanos kMillisecond = 1'000'000;
inline constexpr Nanos kSecond = 1'000'000'000;
inline constexpr Nanos kMinute = 60 * kSecond;
inline constexpr Nanos kHour = 60 * kMinute;
// Later than every instant that is ever compared with it, and safe to add an hour to.
inline constexpr Nanos kNever = INT64_MAX / 2;

// The one source of time. Thread-safe, never blocks, never steps back.
class Clock {
 public:
  virtual ~Clock() = default;
  // Nanoseconds on CLOCK_MONOTONIC of this host (boot-relative; comparable only within one host and time namespace).
  virtual Nanos Now() const = 0;
};

// CLOCK_MONOTONIC; about 32 ns a call.
class SteadyClock final : public Clock {
 public:
  Nanos Now() const override;
  static SteadyClock& Get();
};

// Advances only when told; for state machines and simulations. Not thread-safe.
class FakeClock final : public Clock {
 public:
  explicit FakeClock(Nanos start = 0) : now_(start) {}
  Nanos Now() const override { return now_; }
  void Advance(Nanos by) { now_ += by; }
  void Set(Nanos to) { now_ = to; }

 private:
  Nanos now_;
};

// Microseconds since the Unix epoch. For names and display only; no figure is ever computed from wall time.
int64_t WallMicros();

}  // namespace muster
