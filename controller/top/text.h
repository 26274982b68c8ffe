#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"

namespace muster {

// Text for a terminal in which every character is one column wide: control characters are left out; what may be wider
// or narrower, or is no UTF-8, becomes `?`; without `utf8` so does everything beyond ASCII.
std::string TopClean(std::string_view text, bool utf8);
size_t TopColumns(std::string_view text);  // of clean text
// Cut or padded with blanks to exactly `width` columns.
std::string TopFit(std::string_view text, size_t width, bool right = false);
// Pieces with two blanks between them in lines of at most `width`; lines after the first are indented.
std::vector<std::string> TopWrap(const std::vector<std::string>& pieces, size_t width, size_t indent);

std::string TopMegabytes(double bytes_per_second);  // "50.6": decimal MB, three digits
std::string TopMinutes(Nanos duration);             // "1:35", "2:00:07"
std::string TopSigned(Nanos nanos);                 // "+12.3 us"

}  // namespace muster
