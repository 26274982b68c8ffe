#include "agent/engine/buffer_pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/base/status.h"
#include "common/base/units.h"
#include "fmt/format.h"

namespace muster {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kLargestRegion = size_t{1} << 30;

// Mapped at a huge page boundary when it is at least that large.
uint8_t* Map(size_t bytes) {
  const size_t slack = bytes >= kHugePage ? kHugePage : 0;
  void* raw = mmap(nullptr, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  auto* base = static_cast<uint8_t*>(raw);
  if (slack == 0) return base;
  const size_t lead = (kHugePage - reinterpret_cast<uintptr_t>(base) % kHugePage) % kHugePage;
  if (lead > 0) munmap(base, lead);
  if (lead < slack) munmap(base + lead + bytes, slack - lead);
  return base + lead;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BufferPool>> BufferPool::Allocate(uint32_t slots, size_t slot_bytes, bool prefault) {
  const auto slots_a_region =
      static_cast<uint32_t>(std::clamp<size_t>(kLargestRegion / slot_bytes, 1, std::max<uint32_t>(1, slots)));
  std::unique_ptr<BufferPool> pool(new BufferPool(slots_a_region, slot_bytes));
  for (uint32_t first = 0; first < slots; first += slots_a_region) {
    const size_t bytes = std::min(slots_a_region, slots - first) * slot_bytes;
    uint8_t* base = Map(bytes);
    if (base == nullptr) {
      return MakeError(
          absl::StatusCode::kResourceExhausted,
          {"BUFFER_MEMORY", "buffers", fmt::format("cannot map {}: {}", FormatSize(bytes), strerror(errno)),
           "Use a smaller block, less depth or more agents."});
    }
    pool->regions_.push_back({base, bytes});
    madvise(base, bytes, MADV_HUGEPAGE);  // a wish; plain pages do as well
    if (!prefault) continue;
    // One write a page makes it present and the content known (MADV_POPULATE_WRITE needs Linux 5.14).
    for (size_t offset = 0; offset < bytes; offset += 4096) base[offset] = 1;
  }
  return pool;
}

BufferPool::~BufferPool() {
  if (leaked_) return;
  for (const BufferRegion& region : regions_) munmap(region.base, region.bytes);
}

absl::Status CheckBufferMemory(uint64_t bytes, uint64_t limit) {
  if (limit == 0) {
    limit = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) / 4;
  }
  if (bytes <= limit) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kResourceExhausted,
      {"BUFFER_MEMORY", "buffers",
       fmt::format("the phase needs {} of buffers, the limit is {}", FormatBytesHuman(bytes), FormatBytesHuman(limit)),
       "Use a smaller block, less depth, more agents, or raise --max-buffer-memory."});
}

}  // namespace muster
