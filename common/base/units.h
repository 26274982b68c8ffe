#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/base/clock.h"

namespace muster {

// Parsers take the whole text (surrounding blanks are an error), are case-sensitive (a wrong case is named in the
// error), and return a typed error UNIT_SYNTAX / UNIT_RANGE whose message shows what would have been right.

// "4096", "4KiB", "4K" (= KiB), "140GB" (10^9), "1.5MiB", "1TiB". K M G T alone are binary, as in fio and diskspd;
// KB MB GB TB are decimal. The result must be a whole number of bytes.
absl::StatusOr<uint64_t> ParseSize(std::string_view text);

// "100ns", "250us", "1.5ms", "30s", "2m", "2h30m", "0s". A bare number has no unit: refused. At most kNever.
absl::StatusOr<Nanos> ParseDuration(std::string_view text);

// Operations per second: "10000/s", "10k/s", "1.5M/s", "600/min". Result in operations per second, at most 1e9.
absl::StatusOr<double> ParseRate(std::string_view text);

// "70%", "0.5%"; result 0..1. A bare number is refused.
absl::StatusOr<double> ParsePercent(std::string_view text);

// Passes over a working set: "1x", "2x", "0.5x" is refused (whole passes only).
absl::StatusOr<uint32_t> ParsePasses(std::string_view text);

// Streams x queue depth, the field's TxxQyy: "16T16Q", "1T128Q"; each from 1 to 65,535.
struct Load {
  uint32_t streams = 1;
  uint32_t depth = 1;
  bool operator==(const Load&) const = default;
};
absl::StatusOr<Load> ParseLoad(std::string_view text);

// Shortest exact binary form: 4096 -> "4KiB", 140000000000 -> "140000000000B".
std::string FormatSize(uint64_t bytes);
// Rounded to three digits for people, decimal: "1.23 GB", "456 kB".
std::string FormatBytesHuman(double bytes);
// Shortest exact form that ParseDuration takes: 90 s -> "1m30s", 1500 us -> "1500us".
std::string FormatDuration(Nanos duration);
// Rounded for people: "87.1 us", "1.24 ms", "3.0 s".
std::string FormatLatency(double nanos);
std::string FormatLoad(const Load& load);
// "70%", "0.5%".
std::string FormatPercent(double share);

}  // namespace muster
