#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "common/stats/histogram.h"

namespace muster {

// Preallocated 4 KiB pages (one octave of 1,024 x u32). Owned by one worker; pages go out while it records and come
// back when the reporter has cleared a recorder. Thread-safe hand-back without a lock: the free list is only touched
// by the thread that holds the recorder set (it travels worker -> reporter -> worker whole), so the pool itself is
// NOT thread-safe: a recorder keeps its pages across intervals and takes new ones only in the worker.
//
// The first `resident` pages have memory from the start. The others are addresses that get theirs ahead of use, by
// KeepAhead, so that an agent does not hold all its bound for latencies that come from everywhere at once.
class PagePool {
 public:
  explicit PagePool(size_t pages, size_t resident = SIZE_MAX);
  ~PagePool();
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;
  // A zeroed page, or nullptr when exhausted (the value is then counted in moments and `lost_pages`; sums would not
  // add up, so the engine sizes the pool for the worst case and a check covers the rest).
  uint32_t* Take();
  size_t capacity() const { return capacity_; }
  size_t used() const { return used_.load(std::memory_order_relaxed); }
  // Gives memory to kAhead pages beyond the used ones. From one thread at a time, any, also while another takes pages:
  // what it does not get done in time costs the taker a page fault and nothing else.
  void KeepAhead();
  size_t resident() const { return resident_; }  // of the thread that keeps ahead
  static constexpr size_t kAhead = 256;
  static constexpr size_t kPageBytes = hist::kOctave * sizeof(uint32_t);

 private:
  uint32_t* memory_ = nullptr;
  const size_t capacity_;
  size_t resident_;
  std::atomic<size_t> used_{0};  // written by the taker alone
};

// The recorder of the hot path: 32-bit paged counters, exact moments. One writer; no lock, no atomic, no allocation.
// A counter wraps beyond 2^32-1: an interval of 1 s cannot reach that (it would need 4 G ops/s), and if a longer one
// did, counters and count would disagree and every decoder refuses the histogram.
class PagedHistogram {
 public:
  explicit PagedHistogram(PagePool* pool) : pool_(pool) {}

  void Record(uint64_t value) {
    moments_.Add(value);
    if (__builtin_expect(value > hist::kHighest, 0)) {
      ++moments_.overflow;
      value = hist::kHighest;
    }
    const uint32_t index = hist::IndexOf(value);
    const uint32_t octave = index / hist::kOctave;
    uint32_t* page = pages_[octave];
    if (__builtin_expect(page == nullptr, 0)) {
      page = TakePage(octave);
      if (page == nullptr) return;
    }
    touched_ |= uint64_t{1} << octave;
    ++page[index % hist::kOctave];
  }

  const Moments& moments() const { return moments_; }
  bool empty() const { return moments_.count == 0; }
  uint64_t lost() const { return lost_; }  // values that found no page
  // Walks only the pages touched since Clear.
  EncodedHistogram Encode() const;
  // Adds into a 64-bit histogram (phase totals, live merge in the agent). HISTOGRAM_OVERFLOW when a sum would wrap;
  // `out` is unchanged then.
  absl::Status AddTo(Histogram& out) const;
  // Zeroes the touched pages (kept for the next interval) and the moments.
  void Clear();
  size_t pages() const;

 private:
  uint32_t* TakePage(uint32_t octave);

  PagePool* pool_;
  std::array<uint32_t*, hist::kOctaves> pages_{};
  uint64_t touched_ = 0;  // bit per octave recorded into since Clear; pages stay beyond it
  Moments moments_;
  uint64_t lost_ = 0;
};

}  // namespace muster
