#include "agent/backend/null_backend.h"

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "common/base/rng.h"
#include "common/base/status.h"
#include "fmt/format.h"

namespace muster {
namespace {

// A wait ends after this long at the latest, whatever its deadline: the caller loops anyway.
constexpr Nanos kLongestWait = kSecond;
constexpr uint32_t kMaxDepth = 1u << 20;

enum class Fate : uint8_t { kSucceeds, kFails, kAborted };

// An accepted operation.
struct Entry {
  Nanos due;
  uint64_t sequence;  // order of acceptance, the tie-breaker
  uint64_t tag;
  uint32_t bytes;
  Fate fate;
};

// Heap order of std::push_heap: the earliest entry on top.
struct Later {
  bool operator()(const Entry& a, const Entry& b) const {
    return a.due != b.due ? a.due > b.due : a.sequence > b.sequence;
  }
};

IoCompletion CompletionOf(const Entry& entry) {
  switch (entry.fate) {
    case Fate::kSucceeds:
      break;
    case Fate::kFails:
      return {entry.tag, IoOutcome::kIo, EIO, 0};
    case Fate::kAborted:
      return {entry.tag, IoOutcome::kAborted, ECANCELED, 0};
  }
  return {entry.tag, IoOutcome::kOk, 0, entry.bytes};
}

// Programmed stalls on the local clock, sorted, overlapping ones joined. Time only moves forward, so a cursor answers.
class StallSchedule {
 public:
  explicit StallSchedule(std::vector<NullStall> stalls) {
    std::sort(stalls.begin(), stalls.end(), [](const NullStall& a, const NullStall& b) { return a.at < b.at; });
    for (const NullStall& stall : stalls) {
      if (stall.duration <= 0) continue;
      if (!stalls_.empty() && stall.at <= stalls_.back().at + stalls_.back().duration) {
        NullStall& last = stalls_.back();
        last.duration = std::max(last.duration, stall.at + stall.duration - last.at);
      } else {
        stalls_.push_back(stall);
      }
    }
  }

  void StartAt(Nanos t0) {
    t0_ = t0;
    cursor_ = 0;
    LoadCursor();
  }
  // End of the stall `now` lies in, or 0.
  Nanos EndOfStallAt(Nanos now) {
    while (__builtin_expect(now >= end_, 0)) {
      ++cursor_;
      LoadCursor();
    }
    return now >= begin_ ? end_ : 0;
  }
  // `instant`, moved to the end of the stall it lies in.
  Nanos Shift(Nanos instant) const {
    if (t0_ < 0) return instant;
    for (size_t i = cursor_; i < stalls_.size(); ++i) {
      const Nanos begin = t0_ + stalls_[i].at;
      if (instant < begin) break;
      if (instant < begin + stalls_[i].duration) return begin + stalls_[i].duration;
    }
    return instant;
  }

 private:
  void LoadCursor() {
    const bool more = cursor_ < stalls_.size();
    begin_ = more ? t0_ + stalls_[cursor_].at : kNever;
    end_ = more ? begin_ + stalls_[cursor_].duration : INT64_MAX;
  }

  std::vector<NullStall> stalls_;
  size_t cursor_ = 0;
  Nanos t0_ = -1;
  Nanos begin_ = kNever;
  Nanos end_ = INT64_MAX;
};

// Constant latency completes in order of acceptance, so a ring serves; other shapes need a heap.
class NullBackend final : public Backend {
 public:
  NullBackend(const NullTarget& target, uint64_t seed)
      : target_(target),
        stalls_(target.stalls),
        latency_rng_(MixSeed(seed, 1)),
        error_rng_(MixSeed(seed, 2)),
        in_order_(target.latency <= 0 || target.hang || target.shape == LatencyShape::kConstant) {}

  absl::Status Open(std::span<const BackendObject> /*objects*/, std::span<const BufferRegion> /*buffers*/,
                    const BackendLimits& limits, Nanos /*deadline*/) override {
    if (limits.depth == 0 || limits.depth > kMaxDepth) {
      return MakeError(absl::StatusCode::kInvalidArgument,
                       {"BACKEND_DEPTH", "null", fmt::format("depth {} is outside 1..{}", limits.depth, kMaxDepth),
                        "Ask for a queue depth in that range."});
    }
    capacity_ = target_.queue_limit == 0 ? limits.depth : std::min(limits.depth, target_.queue_limit);
    size_t slots = 1;
    while (slots < capacity_) slots *= 2;
    entries_.assign(slots, Entry{});
    mask_ = slots - 1;
    return absl::OkStatus();
  }

  BackendDescription Describe() const override {
    BackendDescription d;
    d.max_outstanding = capacity_;
    d.parameters.emplace_back("kind", "null");
    d.parameters.emplace_back("latency", FormatDuration(target_.latency));
    d.parameters.emplace_back("shape", target_.shape == LatencyShape::kConstant  ? "constant"
                                       : target_.shape == LatencyShape::kUniform ? "uniform"
                                                                                 : "exponential");
    d.parameters.emplace_back("stalls", fmt::format("{}", target_.stalls.size()));
    d.parameters.emplace_back("error share", FormatPercent(target_.error_share));
    if (target_.queue_limit != 0) d.parameters.emplace_back("queue limit", fmt::format("{}", target_.queue_limit));
    if (target_.hang) d.parameters.emplace_back("hang", "yes");
    return d;
  }

  size_t Submit(std::span<const IoOp> ops, Nanos now) override {
    const size_t accepted = std::min<size_t>(ops.size(), capacity_ - count_);
    for (size_t i = 0; i < accepted; ++i) {
      const Entry entry{now + Latency(), sequence_++, ops[i].tag, ops[i].kind == IoKind::kFlush ? 0 : ops[i].bytes,
                        DrawFate()};
      if (in_order_) {
        entries_[(head_ + count_) & mask_] = entry;
        ++count_;
      } else {
        entries_[count_++] = entry;
        std::push_heap(entries_.begin(), entries_.begin() + count_, Later{});
      }
    }
    return accepted;
  }

  size_t Reap(std::span<IoCompletion> out, Nanos now) override {
    Nanos until = now;
    if (const Nanos end = stalls_.EndOfStallAt(now); __builtin_expect(end != 0, 0)) {
      resume_at_ = end;
      until = kAbortedDue;  // Abort ends operations even while the target stalls
    }
    size_t n = 0;
    if (in_order_) {
      while (n < out.size() && count_ > 0 && entries_[head_].due <= until) {
        out[n++] = CompletionOf(entries_[head_]);
        head_ = (head_ + 1) & mask_;
        --count_;
      }
    } else {
      while (n < out.size() && count_ > 0 && entries_.front().due <= until) {
        std::pop_heap(entries_.begin(), entries_.begin() + count_, Later{});
        out[n++] = CompletionOf(entries_[--count_]);
      }
    }
    return n;
  }

  void WaitUntil(Nanos deadline) override {
    const Nanos now = SteadyClock::Get().Now();
    const Nanos until = std::min({deadline, NextTimer(), now + kLongestWait});
    if (until <= now) return;
    const timespec ts{.tv_sec = until / kSecond, .tv_nsec = until % kSecond};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, nullptr);
  }

  int WaitFd() const override { return -1; }

  Nanos NextTimer() const override {
    if (count_ == 0) return kNever;
    const Nanos due = in_order_ ? entries_[head_].due : entries_.front().due;
    // What was due before a stall began and was not fetched waits for its end, too.
    return due == kAbortedDue ? due : std::min(kNever, std::max(stalls_.Shift(due), resume_at_));
  }

  void PhaseStarts(Nanos t0) override {
    stalls_.StartAt(t0);
    resume_at_ = 0;
  }

  void Abort() override {
    // All keys become equal, so the heap stays one; later operations sort behind.
    for (uint32_t i = 0; i < count_; ++i) {
      Entry& entry = entries_[in_order_ ? (head_ + i) & mask_ : i];
      entry.due = kAbortedDue;
      entry.fate = Fate::kAborted;
    }
    if (!in_order_) std::make_heap(entries_.begin(), entries_.begin() + count_, Later{});
  }

  uint32_t outstanding() const override { return count_; }

  bool Close() override { return count_ == 0; }

 private:
  static constexpr Nanos kAbortedDue = INT64_MIN;

  Nanos Latency() {
    if (target_.hang) return kNever;
    if (in_order_) return target_.latency;
    if (target_.shape == LatencyShape::kUniform) {
      return static_cast<Nanos>(latency_rng_.Below(2 * static_cast<uint64_t>(target_.latency) + 1));
    }
    return static_cast<Nanos>(latency_rng_.Exponential(static_cast<double>(target_.latency)));
  }

  Fate DrawFate() {
    return target_.error_share > 0 && error_rng_.Unit() < target_.error_share ? Fate::kFails : Fate::kSucceeds;
  }

  const NullTarget target_;
  StallSchedule stalls_;
  Rng latency_rng_;
  Rng error_rng_;  // its own sequence: the share that fails does not depend on the latency shape
  const bool in_order_;
  uint32_t capacity_ = 0;
  uint32_t count_ = 0;
  uint64_t sequence_ = 0;
  Nanos resume_at_ = 0;
  std::vector<Entry> entries_;  // ring (in_order_) or heap
  size_t head_ = 0;
  size_t mask_ = 0;
};

}  // namespace

std::unique_ptr<Backend> MakeNullBackend(const NullTarget& target, uint64_t seed) {
  return std::make_unique<NullBackend>(target, seed);
}

}  // namespace muster
