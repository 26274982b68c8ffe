#pragma once
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"

namespace muster {

// What tells agents apart for a campaign: `muster-agent --label rack=b`, `initiators: {match: {rack: b}}`.
using Labels = std::map<std::string, std::string, std::less<>>;
inline constexpr size_t kMaxLabels = 32;

// "rack=b". Both sides are names: 1 to 64 characters of A-Z a-z 0-9 . _ -, letter or digit first. LABEL_SYNTAX.
absl::StatusOr<std::pair<std::string, std::string>> ParseLabel(std::string_view text);
bool IsLabelText(std::string_view text);

// Every label of `match` is there with the same value. Nothing asked: everybody matches.
bool Matches(const Labels& labels, const Labels& match);

// "rack=b, site=x"; empty for none.
std::string FormatLabels(const Labels& labels);

}  // namespace muster
