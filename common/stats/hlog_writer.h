#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace muster {

class Histogram;

// HdrHistogram log format (".hlog", version 1.3, HdrHistogram's HistogramLogWriter): one line an interval with a
// V2 compressed (zlib, base64) histogram. Times in seconds. Pure functions, thread-safe.
class HlogWriter {
 public:
  // Header lines; `start_wall_micros` becomes [StartTime: ...]. Every line of `comment` becomes a comment line.
  static std::string Header(int64_t start_wall_micros, std::string_view comment);
  // One interval; `tag` may be empty (no comma, blank or newline in it, else HLOG_TAG). Interval maximum is in
  // milliseconds as the reference writer does (max / 1e6).
  static absl::StatusOr<std::string> Line(std::string_view tag, double start_seconds, double length_seconds,
                                          const Histogram& histogram);
  // The base64 text of the V2 compressed form alone (what HdrHistogram's decodeFromCompressedBase64 takes).
  static absl::StatusOr<std::string> CompressedBase64(const Histogram& histogram);
};

}  // namespace muster
