#include "controller/report/sparkline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "common/base/units.h"
#include "controller/report/cells.h"

namespace muster {
namespace {

constexpr std::array<const char*, 8> kBars{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

struct Bin {
  double sum = 0;
  uint32_t count = 0;
  bool window = false;
  double Mean() const { return count == 0 ? 0 : sum / count; }
};

}  // namespace

std::string Sparkline(const std::vector<SparkPoint>& points, Nanos length, size_t width, const std::string& indent) {
  if (points.empty() || width == 0) return "";
  const int64_t first = points.front().interval;
  const int64_t span = points.back().interval - first + 1;
  if (span <= 0) return "";
  const int64_t per_bin = (span + static_cast<int64_t>(width) - 1) / static_cast<int64_t>(width);
  std::vector<Bin> bins((span + per_bin - 1) / per_bin);
  double lowest = -1;
  double highest = 0;
  for (const SparkPoint& point : points) {
    Bin& bin = bins[(point.interval - first) / per_bin];
    bin.sum += point.iops;
    ++bin.count;
    bin.window = bin.window || point.in_window;
    lowest = lowest < 0 ? point.iops : std::min(lowest, point.iops);
    highest = std::max(highest, point.iops);
  }
  double top = 0;
  for (const Bin& bin : bins) top = std::max(top, bin.Mean());
  std::string bars;
  std::string marks;
  for (const Bin& bin : bins) {
    const auto height = top > 0 ? static_cast<size_t>(bin.Mean() / top * 7.999) : size_t{0};
    bars += bin.count == 0 ? " " : kBars[std::min(height, kBars.size() - 1)];
    marks += bin.count == 0 ? ' ' : bin.window ? '=' : '~';
  }
  std::string scale = fmt::format("IOPS per interval of {}: {} lowest, {} highest", FormatDuration(length),
                                  CountCell(lowest), CountCell(highest));
  if (per_bin > 1) scale += fmt::format("; {} intervals a column", per_bin);
  return fmt::format("{0}{1}\n{0}{2}\n{0}{3}\n", indent, scale, bars, marks);
}

}  // namespace muster
