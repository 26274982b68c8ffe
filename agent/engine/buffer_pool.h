#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/backend/backend.h"

namespace muster {

// The buffers of one worker thread: one for each slot, page-aligned, on huge pages where the kernel gives them, in
// regions a backend may register (at most 1 GiB each, io_uring's limit). Immutable after Allocate; thread-safe.
class BufferPool {
 public:
  // `slot_bytes` is a multiple of 4,096. `prefault` makes the pages present now rather than at first use.
  // BUFFER_MEMORY when the kernel refuses.
  static absl::StatusOr<std::unique_ptr<BufferPool>> Allocate(uint32_t slots, size_t slot_bytes, bool prefault);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  uint8_t* At(uint32_t slot) const {
    return regions_[slot / slots_a_region_].base + static_cast<size_t>(slot % slots_a_region_) * slot_bytes_;
  }
  uint32_t RegionOf(uint32_t slot) const { return slot / slots_a_region_; }
  std::span<const BufferRegion> regions() const { return regions_; }
  // Operations may still write here: the memory is never given back.
  void Leak() { leaked_ = true; }

 private:
  BufferPool(uint32_t slots_a_region, size_t slot_bytes) : slots_a_region_(slots_a_region), slot_bytes_(slot_bytes) {}

  uint32_t slots_a_region_;
  size_t slot_bytes_;
  std::vector<BufferRegion> regions_;
  bool leaked_ = false;
};

// BUFFER_MEMORY when `bytes` are more than `limit` (0: a quarter of RAM).
absl::Status CheckBufferMemory(uint64_t bytes, uint64_t limit);

}  // namespace muster
