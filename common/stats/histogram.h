#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/stats/counts_codec.h"
#include "common/stats/hlog_writer.h"
#include "common/stats/layout.h"
#include "common/stats/moments.h"

namespace muster {

// A histogram as it travels and is stored: moments plus the HdrHistogram V2 counter payload (ZigZag LEB128 words,
// a negative word is a run of zeros, trailing zeros left out), not deflated.
struct EncodedHistogram {
  Moments moments;
  std::string counts;
  bool operator==(const EncodedHistogram&) const = default;
};

// Percentile as shown: `enough` is false when fewer than 10 operations lie above it (n*(1-q) < 10).
struct Quantile {
  uint64_t value = 0;
  bool enough = false;
};

// A mergeable histogram with 64-bit counters, for reading, merging and export. Value type; not thread-safe.
// At most 2^63-1 values (what one word of the payload carries).
class Histogram {
 public:
  Histogram();

  // One value in ns. Unchecked like Moments::Add.
  void Record(uint64_t value);
  // HISTOGRAM_OVERFLOW when a sum or a counter would wrap; nothing is changed then.
  absl::Status RecordMany(uint64_t value, uint64_t times);
  // Exact and associative. HISTOGRAM_OVERFLOW when a sum or a counter would wrap; `this` is unchanged then.
  absl::Status Merge(const Histogram& other);
  // Decodes, validates and merges. HISTOGRAM_CORRUPT: payload too long, bad varint, index beyond the layout, counter
  // sum unlike moments.count, min/max not those of the outermost counters, sum or sum of squares outside what the
  // counters allow. `this` is unchanged on every error.
  absl::Status Merge(const EncodedHistogram& encoded);
  static absl::StatusOr<Histogram> Decode(const EncodedHistogram& encoded);
  EncodedHistogram Encode() const;

  const Moments& moments() const { return moments_; }
  uint64_t count() const { return moments_.count; }
  // Value at rank max(1, ceil(q*n)): its counter's highest value clamped to [min, max]. 0 when empty. q in [0, 1],
  // taken to twelve decimals, so that 0.07 of 100 is rank 7 and not the 8 that its binary neighbour would give.
  // A rank among values above kHighest yields max.
  Quantile At(double q) const;
  // Calls back for every non-zero counter in ascending order.
  void ForEach(const std::function<void(uint32_t index, uint64_t count)>& visit) const;
  void Clear();
  bool operator==(const Histogram& other) const;

 private:
  friend class PagedHistogram;
  // 1,024 counters, made on first use.
  std::vector<uint64_t>& Octave(uint32_t octave);
  // Checked, nothing changed on error; the caller adds the counters that belong to them.
  absl::Status AddMoments(const Moments& added);

  std::vector<std::vector<uint64_t>> octaves_;  // an empty vector is 1,024 zeros
  Moments moments_;
};

}  // namespace muster
