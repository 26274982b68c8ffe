#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace muster {

// A counter payload (common/stats/counts_codec.h) in about a third of its bytes, for the wire: neighbouring counters of
// a histogram of real latencies are alike, and a whole byte for each is more than they say.
//
// Form: the number of non-zero counters (LEB128), then a stream of bits, most significant first, the last byte filled
// with zeros. Numbers are Rice codes (R. F. Rice, JPL 79-22): q = n >> k ones, a zero, the k low bits; from q = 20 on
// twenty ones, six bits holding the length of n less one, and n. Going through the counters from 0, with a running mean
// m of about 32 counters (kept as 256 m: m += 8 c - m / 32, c at most 2^20):
//   m >= 80   the counter itself, k the least with 384 * 2^k >= m;
//   m < 80    the zeros before the next non-zero counter, k the least with 12 * 2^k >= g (g += zeros - g / 8), then
//             that counter less one with k = 0.
// It ends with the last non-zero counter. Integers only, so both ends agree on every machine. 10 to 20 ns a counter.

// Payloads below this many bytes are sent as they are: packing would save too little to be worth its time.
inline constexpr size_t kPackCountsFrom = 64;

// `payload` must be valid; HISTOGRAM_CORRUPT otherwise.
absl::StatusOr<std::string> PackCounts(std::string_view payload);

// The payload that was packed. HISTOGRAM_CORRUPT: cut short, bytes left over, fill bits set, a needless escape, an
// index beyond the layout, a counter beyond 2^63-1. Bounded by the layout whatever the bytes say.
absl::StatusOr<std::string> UnpackCounts(std::string_view packed);

}  // namespace muster
