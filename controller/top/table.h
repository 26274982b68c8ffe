#pragma once
#include <string>
#include <vector>

#include "controller/top/layout.h"

namespace muster {

// The table of a view, laid out for the rows that are there.
struct TopTable {
  std::string header;
  std::vector<TopLine> lines;  // of the rows from `first`, at most `count`
};
TopTable DrawTopTable(TopView view, const std::vector<TopRow>& rows, size_t first, size_t count, const TopSize& size);

}  // namespace muster
