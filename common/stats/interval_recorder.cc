#include "common/stats/interval_recorder.h"

#include <algorithm>

#include "common/base/status.h"
#include "fmt/format.h"

namespace muster {
namespace {

constexpr size_t kTypicalOctaves = 12;
// prompt, response, wait, service (KindRecorder).
constexpr size_t kHistogramsAKind = 4;

size_t KindsOf(const RecorderShape& shape) {
  return static_cast<size_t>(std::count(shape.kinds.begin(), shape.kinds.end(), true));
}

// Tables and recorder objects of one set, pages apart.
size_t TableBytes(const RecorderShape& shape) {
  constexpr size_t kPointer = sizeof(void*);  // an entry of the set's table
  const size_t recorders = shape.initiators * KindsOf(shape) * (shape.open_loop ? 2 : 1);
  return sizeof(IntervalSet) + recorders * sizeof(KindRecorder) +
         shape.initiators *
             (sizeof(InitiatorFigures) + (shape.open_loop ? sizeof(PagedHistogram) : 0) + kOpKinds * 2 * kPointer);
}

}  // namespace

IntervalSet::IntervalSet(const RecorderShape& shape, PagePool* pool)
    : initiators(shape.initiators), table_(static_cast<size_t>(shape.initiators) * kOpKinds * 2, nullptr) {
  for (uint32_t slot = 0; slot < shape.initiators; ++slot) {
    for (int kind = 0; kind < kOpKinds; ++kind) {
      if (!shape.kinds[kind]) continue;
      KindRecorder** pair = &table_[(slot * kOpKinds + kind) * 2];
      for (int i = 0; i < 2; ++i) {
        if (i == 0 || shape.open_loop) recorders_.push_back(std::make_unique<KindRecorder>(pool));
        pair[i] = recorders_.back().get();
      }
    }
    if (shape.open_loop) lateness.emplace_back(pool);
  }
}

uint64_t IntervalSet::Lost() const {
  uint64_t lost = 0;
  for (const auto& recorder : recorders_) lost += recorder->lost();
  for (const PagedHistogram& histogram : lateness) lost += histogram.lost();
  return lost;
}

void IntervalSet::Clear() {
  interval = 0;
  drain = missed = primary_in_window = false;
  begin = end = edge_error = stamp_error = poll_gap_max = 0;
  std::fill(initiators.begin(), initiators.end(), InitiatorFigures{});
  for (const auto& recorder : recorders_) recorder->Clear();
  for (PagedHistogram& histogram : lateness) histogram.Clear();
}

RecorderPages PagesFor(const RecorderShape& shape) {
  const size_t pairs = shape.initiators * KindsOf(shape);
  const size_t lateness = shape.open_loop ? shape.initiators : 0;
  const size_t cohorts = shape.open_loop ? 2 : 1;
  // In open loop nearly no operation has a wait of zero, and the second cohort is used around two edges only.
  const size_t least_histograms = kHistogramsAKind + (shape.open_loop ? 2 : 0);
  return {.wanted = IntervalRecorder::kSets * hist::kOctaves * (pairs * kHistogramsAKind * cohorts + lateness),
          .least = IntervalRecorder::kSets * kTypicalOctaves * (pairs * least_histograms + lateness)};
}

absl::StatusOr<std::vector<size_t>> BudgetPages(const std::vector<RecorderShape>& shapes) {
  size_t wanted = 0;
  size_t least = 0;
  size_t tables = 0;
  size_t bound = kRecorderBytesClosed;
  for (const RecorderShape& shape : shapes) {
    const RecorderPages pages = PagesFor(shape);
    wanted += pages.wanted;
    least += pages.least;
    tables += IntervalRecorder::kSets * TableBytes(shape);
    if (shape.open_loop) bound = kRecorderBytesOpen;
  }
  if (tables + least * PagePool::kPageBytes > bound) {
    return MakeError(
        absl::StatusCode::kResourceExhausted,
        {.code = "RECORDER_MEMORY",
         .place = "recorders",
         .message = fmt::format("histograms of this phase need at least {} MB, the bound of an agent is {} MB",
                                (tables + least * PagePool::kPageBytes) / 1'000'000, bound / 1'000'000),
         .next = "Use more agents or fewer initiators an agent."});
  }
  const size_t available = (bound - tables) / PagePool::kPageBytes;
  std::vector<size_t> result;
  for (const RecorderShape& shape : shapes) {
    const RecorderPages pages = PagesFor(shape);
    // What is left beyond the least is dealt in proportion to what each lacks.
    const size_t extra = wanted <= available ? pages.wanted - pages.least
                                             : (available - least) * (pages.wanted - pages.least) / (wanted - least);
    result.push_back(pages.least + extra);
  }
  return result;
}

IntervalRecorder::IntervalRecorder(const RecorderShape& shape, size_t pages)
    : pool_(pages, PagesFor(shape).least), full_(kSets), clean_(kSets) {
  for (int i = 0; i < kSets; ++i) {
    sets_.push_back(std::make_unique<IntervalSet>(shape, &pool_));
    clean_.Push(sets_.back().get());
  }
  bytes_ = pages * PagePool::kPageBytes + kSets * TableBytes(shape);
}

IntervalSet* IntervalRecorder::TakeClean() {
  return clean_.Pop().value_or(nullptr);
}

void IntervalRecorder::Publish(IntervalSet* set) {
  full_.Push(set);
}

IntervalSet* IntervalRecorder::TakeFull() {
  return full_.Pop().value_or(nullptr);
}

void IntervalRecorder::GiveBack(IntervalSet* set) {
  set->Clear();
  pool_.KeepAhead();
  clean_.Push(set);
}

}  // namespace muster
