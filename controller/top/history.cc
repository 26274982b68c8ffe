#include "controller/top/history.h"

#include <algorithm>

#include "controller/cli/live_view.h"

namespace muster {

void TopHistory::Add(Nanos now, double value) {
  if (!points_.empty() && now - since_ < kSecond) {
    ++merged_;
    points_.back() += (static_cast<float>(value) - points_.back()) / static_cast<float>(merged_);
    return;
  }
  points_.push_back(static_cast<float>(value));
  since_ = now;
  merged_ = 1;
  if (points_.size() <= kPoints) return;
  points_.erase(points_.begin());
  ++forgotten_;
}

std::vector<double> TopHistory::Columns(size_t width) const {
  if (width == 0 || points_.empty()) return {};
  const size_t each = (points_.size() + width - 1) / width;
  std::vector<double> columns;
  size_t count = 0;
  for (size_t i = 0; i < points_.size(); ++i) {
    // By number since the beginning, so that a column does not change when older points leave.
    if (columns.empty() || (forgotten_ + i) % each == 0) {
      columns.push_back(0);
      count = 0;
    }
    ++count;
    columns.back() += (static_cast<double>(points_[i]) - columns.back()) / static_cast<double>(count);
  }
  if (columns.size() > width) columns.erase(columns.begin());
  return columns;
}

std::string TopSparkline(const TopHistory& history, size_t width, bool utf8) {
  const std::vector<double> columns = history.Columns(width);
  if (utf8) return Sparkline(columns, width);
  static constexpr char kHeights[] = ".:-=+*#@";
  const double top = columns.empty() ? 0 : *std::max_element(columns.begin(), columns.end());
  std::string line;
  for (double value : columns) {
    line += kHeights[std::min<size_t>(7, top > 0 ? static_cast<size_t>(value / top * 8) : 0)];
  }
  return line;
}

}  // namespace muster
