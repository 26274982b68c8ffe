#include "common/stats/paged_recorder.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "common/base/status.h"

namespace muster {
namespace {

// Visits the non-zero counters of one page in ascending order; eight counters that are all zero cost one comparison.
template <typename Visit>
void ForEachInPage(const uint32_t* page, Visit&& visit) {
  constexpr uint32_t kGroup = 8;
  for (uint32_t group = 0; group < hist::kOctave; group += kGroup) {
    uint32_t any = 0;
    for (uint32_t i = 0; i < kGroup; ++i) any |= page[group + i];
    if (any == 0) continue;
    for (uint32_t i = group; i < group + kGroup; ++i) {
      if (page[i] != 0) visit(i, page[i]);
    }
  }
}

}  // namespace

PagePool::PagePool(size_t pages, size_t resident) : capacity_(pages), resident_(std::min(pages, resident)) {
  if (capacity_ == 0) return;
  void* const memory =
      mmap(nullptr, capacity_ * kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<uint32_t*>(memory);
  std::memset(memory_, 0, resident_ * kPageBytes);
}

PagePool::~PagePool() {
  if (memory_ != nullptr) munmap(memory_, capacity_ * kPageBytes);
}

uint32_t* PagePool::Take() {
  const size_t used = used_.load(std::memory_order_relaxed);
  if (used == capacity_) return nullptr;
  used_.store(used + 1, std::memory_order_relaxed);
  return memory_ + hist::kOctave * used;
}

void PagePool::KeepAhead() {
  const size_t wanted = std::min(capacity_, used() + kAhead);
  if (wanted <= resident_) return;
  // Leaves what is there as it is, so it may meet the taker. Kernels before 5.14 do not know it.
  madvise(memory_ + hist::kOctave * resident_, (wanted - resident_) * kPageBytes, MADV_POPULATE_WRITE);
  resident_ = wanted;
}

uint32_t* PagedHistogram::TakePage(uint32_t octave) {
  uint32_t* page = pool_->Take();
  if (page == nullptr) {
    ++lost_;
    return nullptr;
  }
  pages_[octave] = page;
  return page;
}

EncodedHistogram PagedHistogram::Encode() const {
  CountsWriter writer;
  for (uint64_t left = touched_; left != 0; left &= left - 1) {
    const auto octave = static_cast<uint32_t>(std::countr_zero(left));
    ForEachInPage(pages_[octave], [&](uint32_t i, uint32_t count) { writer.Add(octave * hist::kOctave + i, count); });
  }
  return {.moments = moments_, .counts = writer.Take()};
}

absl::Status PagedHistogram::AddTo(Histogram& out) const {
  MUSTER_RETURN_IF_ERROR(out.AddMoments(moments_));
  for (uint64_t left = touched_; left != 0; left &= left - 1) {
    const auto octave = static_cast<uint32_t>(std::countr_zero(left));
    std::vector<uint64_t>& counters = out.Octave(octave);
    ForEachInPage(pages_[octave], [&](uint32_t i, uint32_t count) { counters[i] += count; });
  }
  return absl::OkStatus();
}

void PagedHistogram::Clear() {
  for (uint64_t left = touched_; left != 0; left &= left - 1) {
    std::memset(pages_[std::countr_zero(left)], 0, PagePool::kPageBytes);
  }
  touched_ = 0;
  moments_ = Moments{};
  lost_ = 0;
}

size_t PagedHistogram::pages() const {
  size_t count = 0;
  for (const uint32_t* page : pages_) count += page != nullptr ? 1 : 0;
  return count;
}

}  // namespace muster
