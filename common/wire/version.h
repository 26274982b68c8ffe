#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace muster {

// Versions of the API between agent and controller that this build speaks. Raise kApiMax with a change that an older
// peer would misread; raise kApiMin when an old one is no longer spoken. 2: packed counters, held histograms.
// 3: numbered Control messages, sessions that outlive a link.
inline constexpr uint32_t kApiMin = 3;
inline constexpr uint32_t kApiMax = 3;

struct ApiRange {
  uint32_t min = kApiMin;
  uint32_t max = kApiMax;
  bool operator==(const ApiRange&) const = default;
};

// "0.1.0+1a2b3c4": version, and the commit it was configured from.
std::string_view BuildString();

// The highest version both speak; nothing when the ranges do not overlap (or one of them is turned around).
std::optional<uint32_t> ChooseApi(const ApiRange& a, const ApiRange& b);
bool Overlap(const ApiRange& a, const ApiRange& b);

// API_VERSION, with both ranges and both builds in the text.
absl::Status VersionRefusal(std::string_view agent_id, const ApiRange& agent, std::string_view agent_build,
                            const ApiRange& controller, std::string_view controller_build);

}  // namespace muster
