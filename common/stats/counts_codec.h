#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace muster {

// The counter payload of HdrHistogram's V2 encoding (its EncodableHistogram / ZigZagEncoding): one ZigZag LEB128-64b9B
// word a counter in ascending order; a negative word -k stands for k zeros, a single zero is the word 0; the payload
// ends at the last non-zero counter.
inline constexpr size_t kMaxCountsPayload = 304'128;  // 9 bytes a counter

struct Counter {
  uint32_t index = 0;
  uint64_t count = 0;
  bool operator==(const Counter&) const = default;
};

// Writes one payload. Not thread-safe.
class CountsWriter {
 public:
  // Ascending indexes below hist::kCounters, each once; count from 1 to 2^63-1 (the most a word carries).
  void Add(uint32_t index, uint64_t count);
  // The payload; the writer is empty again.
  std::string Take();

 private:
  void Put(int64_t word);

  std::string out_;
  uint32_t next_ = 0;  // first index not written yet
};

// The non-zero counters in ascending order. HISTOGRAM_CORRUPT: payload longer than kMaxCountsPayload, a word cut short
// or padded with needless zero bytes, an index beyond the layout.
absl::StatusOr<std::vector<Counter>> DecodeCounts(std::string_view payload);

// The typed error of everything that is wrong inside a histogram.
absl::Status CorruptHistogram(std::string_view message);

}  // namespace muster
