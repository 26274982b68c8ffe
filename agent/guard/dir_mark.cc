#include "agent/guard/dir_mark.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "agent/guard/label.h"

namespace muster {
namespace {

constexpr std::string_view kFirstLine = "muster directory mark 1";

uint32_t Crc(std::string_view text) {
  return Crc32c({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

// Takes "key value\n" off the front of `text`; false if the next line has another key.
bool TakeLine(std::string_view& text, std::string_view key, std::string_view& value) {
  const size_t end = text.find('\n');
  if (end == std::string_view::npos || text.substr(0, key.size()) != key || end <= key.size() ||
      text[key.size()] != ' ') {
    return false;
  }
  value = text.substr(key.size() + 1, end - key.size() - 1);
  text.remove_prefix(end + 1);
  return true;
}

}  // namespace

bool IsDataFileName(std::string_view name) {
  if (name.empty() || name.size() > 200 || name[0] == '.') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  });
}

std::string EncodeDirMark(const DirMark& mark) {
  std::string text = fmt::format("{}\nuuid {}\ngeneration {}\nmade_parent {}\n", kFirstLine, FormatUuid(mark.uuid),
                                 mark.generation, mark.made_parent ? "yes" : "no");
  for (const auto& [name, kept] : mark.files) text += fmt::format("{} {}\n", kept ? "kept" : "file", name);
  text += fmt::format("crc32c {:08x}\n", Crc(text));
  return text;
}

std::optional<DirMark> DecodeDirMark(std::string_view text) {
  const std::string_view whole = text;
  DirMark mark;
  std::string_view value;
  if (text.substr(0, kFirstLine.size()) != kFirstLine || text.size() <= kFirstLine.size()) return std::nullopt;
  text.remove_prefix(kFirstLine.size() + 1);
  if (!TakeLine(text, "uuid", value) || !ParseUuid(value, mark.uuid)) return std::nullopt;
  if (!TakeLine(text, "generation", value)) return std::nullopt;
  const auto number = std::from_chars(value.data(), value.data() + value.size(), mark.generation);
  if (number.ec != std::errc() || number.ptr != value.data() + value.size()) return std::nullopt;
  if (!TakeLine(text, "made_parent", value) || (value != "yes" && value != "no")) return std::nullopt;
  mark.made_parent = value == "yes";
  while (!text.empty()) {
    if (TakeLine(text, "file", value)) {
      if (!IsDataFileName(value)) return std::nullopt;
      mark.files.emplace(value, false);
    } else if (TakeLine(text, "kept", value)) {
      if (!IsDataFileName(value)) return std::nullopt;
      mark.files.emplace(value, true);
    } else {
      break;
    }
  }
  // Every line is in canonical form, so encoding the parts must give the very same text, CRC included.
  if (EncodeDirMark(mark) != whole) return std::nullopt;
  return mark;
}

}  // namespace muster
