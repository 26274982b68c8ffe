#include "common/wire/text.h"

#include <cstdint>

namespace muster {
namespace {

// Length of the well-formed UTF-8 sequence at `text` (Unicode 15, table 3-7), 0 if there is none.
size_t SequenceLength(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  size_t length = 0;
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  }
  if (length == 0 || length > text.size()) return 0;
  if (byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

std::string WireText(std::string_view text, size_t max) {
  static constexpr std::string_view kMore = "...";
  std::string out;
  size_t fits = 0;  // end of the last character that leaves room for kMore
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    const size_t adds = length == 0 ? 1 : length;
    if (out.size() + adds > max) {
      out.resize(fits);
      if (fits + kMore.size() <= max) out += kMore;
      return out;
    }
    if (length == 0) {
      out.push_back('?');
    } else {
      out.append(text.substr(0, length));
    }
    text.remove_prefix(adds);
    if (out.size() + kMore.size() <= max) fits = out.size();
  }
  return out;
}

}  // namespace muster
