#pragma once
#include <string>
#include <vector>

#include "controller/top/model.h"

namespace muster {

enum class TopStyle : uint8_t { kPlain, kTitle, kHeader, kWarn, kDim };

// As it lies on the screen: at most `width` columns of characters that are one column wide each, from the top.
struct TopLine {
  std::string text;
  TopStyle style = TopStyle::kPlain;
};
struct TopFrame {
  std::vector<TopLine> lines;  // exactly the height
  size_t rows = 0;             // lines that the table has: TopModel::SetPage
};

struct TopSize {
  size_t width = 80, height = 24;
  bool utf8 = true;
};

// Draws the model. Columns that do not fit are left out, the least important ones first; the sparkline takes what is
// left. At least one row of the table and the help line are drawn in a terminal of six lines or more. Pure.
TopFrame DrawTop(const TopModel& model, const TopSize& size, Nanos now);

}  // namespace muster
