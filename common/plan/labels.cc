#include "common/plan/labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "common/base/status.h"

namespace muster {

bool IsLabelText(std::string_view text) {
  const auto plain = [](unsigned char c) { return std::isalnum(c) != 0 && c < 0x80; };
  return !text.empty() && text.size() <= 64 && plain(static_cast<unsigned char>(text[0])) &&
         std::all_of(text.begin(), text.end(),
                     [&](char c) { return plain(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-'; });
}

absl::StatusOr<std::pair<std::string, std::string>> ParseLabel(std::string_view text) {
  const size_t equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  const std::string_view value = equals == std::string_view::npos ? std::string_view() : text.substr(equals + 1);
  if (!IsLabelText(name) || !IsLabelText(value)) {
    return MakeError(absl::StatusCode::kInvalidArgument,
                     {.code = "LABEL_SYNTAX",
                      .place = {},
                      .message = "\"" + std::string(text.substr(0, 80)) + "\" is no label",
                      .next = "Write NAME=VALUE, each of 1 to 64 characters of A-Z a-z 0-9 . _ -, e.g. rack=b."});
  }
  return std::pair(std::string(name), std::string(value));
}

bool Matches(const Labels& labels, const Labels& match) {
  return std::all_of(match.begin(), match.end(), [&](const auto& wanted) {
    const auto found = labels.find(wanted.first);
    return found != labels.end() && found->second == wanted.second;
  });
}

std::string FormatLabels(const Labels& labels) {
  std::string text;
  for (const auto& [name, value] : labels) text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, value);
  return text;
}

}  // namespace muster
