#include "common/wire/version.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/status.h"

namespace muster {

std::string_view BuildString() {
  return MUSTER_BUILD_STRING;
}

std::optional<uint32_t> ChooseApi(const ApiRange& a, const ApiRange& b) {
  if (a.min > a.max || b.min > b.max) return std::nullopt;
  const uint32_t highest = std::min(a.max, b.max);
  if (highest < std::max(a.min, b.min)) return std::nullopt;
  return highest;
}

bool Overlap(const ApiRange& a, const ApiRange& b) {
  return ChooseApi(a, b).has_value();
}

absl::Status VersionRefusal(std::string_view agent_id, const ApiRange& agent, std::string_view agent_build,
                            const ApiRange& controller, std::string_view controller_build) {
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      {.code = "API_VERSION",
       .place = fmt::format("agent {}", agent_id),
       .message = fmt::format("the agent (build {}) speaks API {}..{}, the controller (build {}) {}..{}", agent_build,
                              agent.min, agent.max, controller_build, controller.min, controller.max),
       .next = "Install the same release on both."});
}

}  // namespace muster
