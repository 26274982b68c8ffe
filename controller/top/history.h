#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "common/base/clock.h"

namespace muster {

// IOPS of the last minutes: one point a second at most (the mean of what came in it), kPoints of them. Value type.
class TopHistory {
 public:
  static constexpr size_t kPoints = 180;
  void Add(Nanos now, double value);
  bool empty() const { return points_.empty(); }
  // All points in at most `width` columns, each the mean of as many points; points keep their column while others come.
  std::vector<double> Columns(size_t width) const;

 private:
  std::vector<float> points_;
  size_t forgotten_ = 0;
  Nanos since_ = 0;      // of the newest point
  uint32_t merged_ = 0;  // values in it
};

// At most `width` columns, scaled from 0 to the largest: eight heights of block characters, or of ASCII ones.
std::string TopSparkline(const TopHistory& history, size_t width, bool utf8);

}  // namespace muster
