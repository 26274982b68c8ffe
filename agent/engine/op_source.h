#pragma once
#include <cstdint>
#include <vector>

#include "common/base/rng.h"
#include "common/plan/layout.h"
#include "common/plan/plan.h"
#include "common/stats/op_stats.h"

namespace muster {

// One operation as a source wants it, in the offsets of its object.
struct PlannedOp {
  uint64_t offset = 0;
  uint32_t bytes = 0;
  uint32_t slot = 0;
  OpKind kind = OpKind::kRead;
};

// The operations of one stream: a pure function of (seed, initiator, stream, sequence), whatever agent or worker runs
// it and whatever the outcomes were. A value type with one cursor; not thread-safe.
//
// Kind: a share `trim` of the operations are trims, of the rest a share `read` reads, the others writes. After every
// `flush_every` writes of the stream one flush follows; it is an operation of its own in the sequence, not a barrier.
// Place: random draws whole blocks of the area with replacement; sequential walks the stream's slice block by block
// and wraps inside it, whatever the kinds.
class OpSource {
 public:
  // `seed` is the stream's own (see StreamSeed). The extent holds at least one block.
  OpSource(const Workload& workload, const StreamExtent& extent, uint64_t seed);

  PlannedOp Next() {
    if (flush_every_ != 0 && writes_ == flush_every_) {
      writes_ = 0;
      return {.offset = 0, .bytes = 0, .slot = slot_, .kind = OpKind::kFlush};
    }
    PlannedOp op{.offset = 0, .bytes = block_, .slot = slot_, .kind = OpKind::kRead};
    // Counter-based: two words a sequence number, so any operation can be computed without those before it.
    uint64_t state = seed_ + sequence_ * kStride;
    const uint64_t draw = SplitMix64(state) >> 1;
    op.kind = draw < trim_below_ ? OpKind::kTrim : draw < read_below_ ? OpKind::kRead : OpKind::kWrite;
    writes_ += op.kind == OpKind::kWrite ? 1 : 0;
    const uint64_t block =
        random_ ? static_cast<uint64_t>((static_cast<unsigned __int128>(SplitMix64(state)) * blocks_) >> 64)
                : position_;
    if (!random_ && ++position_ == blocks_) position_ = 0;
    op.offset = begin_ + block * block_;
    ++sequence_;
    return op;
  }

 private:
  static constexpr uint64_t kStride = 2 * 0x9E3779B97F4A7C15ull;  // two SplitMix64 steps

  uint64_t seed_;
  uint64_t begin_ = 0;   // bytes
  uint64_t blocks_ = 0;  // of the area (random) or slice (sequential)
  uint64_t position_ = 0;
  uint64_t sequence_ = 0;  // flushes not counted
  uint64_t trim_below_;    // thresholds on 63-bit draws
  uint64_t read_below_;
  uint32_t block_;
  uint32_t slot_;
  uint32_t flush_every_;
  uint32_t writes_ = 0;  // since the last flush
  bool random_;
};

// Seeds of one stream; purposes keep a stream's places, arrivals and content independent of each other.
enum class SeedPurpose : uint64_t { kSource = 1, kPacer = 2, kContent = 3, kBackend = 4 };
uint64_t StreamSeed(uint64_t seed, SeedPurpose purpose, uint32_t initiator, uint32_t stream);

// The writes of a fill: extents in their order, every block exactly once a pass, the last block of an extent shorter
// if need be, at the end one flush for every object written. A pass begins only when the one before has wholly ended,
// so that no block is in flight twice. Not thread-safe.
class FillSource {
 public:
  explicit FillSource(const FillSpec& spec);
  // False: nothing at the moment (the pass has been issued and not ended, or all is done).
  bool Next(PlannedOp& op);
  // An operation of Next has ended well.
  void Done(const PlannedOp& op);
  // Everything has been issued and has ended.
  bool finished() const { return passes_left_ == 0 && flush_next_ == flush_slots_.size() && in_flight_ == 0; }
  uint64_t bytes_done() const { return bytes_done_; }
  uint64_t bytes_total() const { return bytes_total_; }

 private:
  const std::vector<FillExtent> extents_;
  const uint64_t block_;
  uint32_t passes_left_;
  size_t extent_ = 0;      // of the pass
  uint64_t position_ = 0;  // bytes into the extent
  uint64_t in_flight_ = 0;
  std::vector<uint32_t> flush_slots_;
  size_t flush_next_ = 0;
  uint64_t bytes_done_ = 0;
  uint64_t bytes_total_ = 0;
};

}  // namespace muster
