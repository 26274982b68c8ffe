#include "common/stats/paged_recorder.h"

#include <bit>
#include <cstring>

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

PagePool::PagePool(size_t pages) : memory_(std::make_unique<uint32_t[]>(pages * hist::kOctave)), capacity_(pages) {}

uint32_t* PagePool::Take() {
  if (used_ == capacity_) return nullptr;
  return memory_.get() + hist::kOctave * used_++;
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
