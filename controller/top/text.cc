#include "controller/top/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "common/base/units.h"

namespace muster {
namespace {

// One column wide in every terminal: Latin, Greek, Cyrillic without combining marks, and what is drawn here.
bool Narrow(uint32_t code) {
  return (code >= 0xA0 && code < 0x300 && code != 0xAD) || (code >= 0x370 && code < 0x483) ||
         (code >= 0x48A && code < 0x530) || (code >= 0x2580 && code < 0x2600);
}

struct Decoded {
  uint32_t code = 0;
  size_t length = 1;
  bool good = false;
};

Decoded Decode(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {.code = lead, .length = 1, .good = true};
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 0;
  if (length == 0 || lead >= 0xF8 || text.size() < length) return {};
  uint32_t code = lead & (0x7FU >> length);
  for (size_t i = 1; i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0) != 0x80) return {};
    code = code << 6 | (next & 0x3F);
  }
  return {.code = code, .length = length, .good = true};
}

}  // namespace

std::string TopClean(std::string_view text, bool utf8) {
  std::string out;
  while (!text.empty()) {
    const Decoded one = Decode(text);
    if (one.good && one.code < 0x80) {
      if (one.code == '\t' || one.code == '\n') {
        out += ' ';
      } else if (one.code >= 0x20 && one.code != 0x7F) {
        out += text[0];
      }
    } else if (one.good && utf8 && Narrow(one.code)) {
      out += text.substr(0, one.length);
    } else if (!one.good || one.code >= 0xA0) {
      out += '?';
    }
    text.remove_prefix(one.length);
  }
  return out;
}

size_t TopColumns(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string TopFit(std::string_view text, size_t width, bool right) {
  const size_t columns = TopColumns(text);
  if (columns <= width) {
    const std::string blanks(width - columns, ' ');
    return right ? blanks + std::string(text) : std::string(text) + blanks;
  }
  size_t seen = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((text[i] & 0xC0) != 0x80 && seen++ == width) return std::string(text.substr(0, i));
  }
  return std::string(text);
}

std::vector<std::string> TopWrap(const std::vector<std::string>& pieces, size_t width, size_t indent) {
  std::vector<std::string> lines;
  for (const std::string& piece : pieces) {
    if (piece.empty()) continue;
    if (!lines.empty() && TopColumns(lines.back()) + 2 + TopColumns(piece) <= width) {
      lines.back() += "  " + piece;
    } else {
      lines.push_back(lines.empty() ? piece : std::string(indent, ' ') + piece);
    }
  }
  for (std::string& line : lines) {
    if (TopColumns(line) > width) line = TopFit(line, width);
  }
  return lines;
}

std::string TopMegabytes(double bytes_per_second) {
  const double value = bytes_per_second / 1e6;
  return fmt::format("{:.{}f}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

std::string TopMinutes(Nanos duration) {
  const int64_t seconds = std::max<Nanos>(0, duration) / kSecond;
  if (seconds >= 3600) return fmt::format("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
  return fmt::format("{}:{:02}", seconds / 60, seconds % 60);
}

std::string TopSigned(Nanos nanos) {
  return (nanos < 0 ? "-" : "+") + FormatLatency(static_cast<double>(nanos < 0 ? -nanos : nanos));
}

}  // namespace muster
