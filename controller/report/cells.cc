#include "controller/report/cells.h"

#include <fmt/format.h>

#include <cmath>
#include <ctime>

#include "common/base/units.h"

namespace muster {

std::string CountCell(double value) {
  if (value < 100 && value != std::floor(value)) return fmt::format("{:.1f}", value);
  std::string digits = fmt::format("{:.0f}", value);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3) digits.insert(at, ",");
  return digits;
}

std::string MegabytesCell(double bytes_per_second) {
  const double megabytes = bytes_per_second / 1e6;
  return megabytes < 100 ? fmt::format("{:.2f}", megabytes) : CountCell(std::round(megabytes));
}

std::string PercentileCell(const Histogram& histogram, double q) {
  if (histogram.count() == 0) return "-";
  const Quantile quantile = histogram.At(q);
  return quantile.enough ? FormatLatency(static_cast<double>(quantile.value)) : "n too small";
}

std::string LatencyCell(const Histogram& histogram, double nanos) {
  return histogram.count() == 0 ? "-" : FormatLatency(nanos);
}

std::string MaxCell(const KindFigures& kind) {
  return kind.response_max > 0 ? FormatLatency(static_cast<double>(kind.response_max)) : LatencyCell(kind.response, 0);
}

std::string DepthCell(double depth) {
  return depth == std::floor(depth) ? fmt::format("{:.0f}", depth) : fmt::format("{:.1f}", depth);
}

std::string TimeCell(int64_t wall_micros) {
  if (wall_micros == 0) return "-";
  const std::time_t seconds = wall_micros / 1'000'000;
  std::tm utc{};
  if (gmtime_r(&seconds, &utc) == nullptr) return "-";
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02} UTC", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min, utc.tm_sec);
}

}  // namespace muster
