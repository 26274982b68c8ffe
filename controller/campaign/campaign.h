#pragma once
#include <map>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/plan/plan.h"
#include "muster/v1/campaign.pb.h"

namespace muster {

struct SourcePosition {
  int line = 0, column = 0;  // from 1
};

// A campaign as read and bound, defaults of the rules filled in.
struct LoadedCampaign {
  v1::Campaign message;
  std::string text;   // the file's bytes
  std::string file;   // as named by the user, for messages
  // Field path ("steps[0].workload.size") -> where it stands; absent for fields that were left out.
  std::map<std::string, SourcePosition, std::less<>> positions;

  // "file:line:column" of the field, or of the nearest enclosing one that was written.
  std::string Place(std::string_view field_path) const;
};

// Reads and binds a YAML file. Every problem is a typed error "file:line:column: message" (CAMPAIGN_UNREADABLE,
// YAML_SYNTAX, YAML_LIMIT, YAML_DUPLICATE_KEY, YAML_ANCHOR, UNKNOWN_KEY with did-you-mean, WRONG_TYPE, UNIT_SYNTAX,
// UNIT_RANGE, ENUM_UNKNOWN, MISSING_KEY). Limits: 1 MiB, depth 32, 100,000 nodes.
absl::StatusOr<LoadedCampaign> LoadCampaign(const std::string& path);
absl::StatusOr<LoadedCampaign> LoadCampaignText(const std::string& file, const std::string& text);

// Checks what single fields cannot (contradictory options, names that do not exist, sets too small ...) and compiles
// the sweeps into steps. Typed errors CONTRADICTION, UNKNOWN_TARGET, SET_TOO_SMALL, WINDOW_NOT_WHOLE ... with place.
absl::StatusOr<Plan> Compile(const LoadedCampaign& campaign);

// `muster help campaign`: every option with unit, limits, default and one line, from the descriptors. Markdown table
// form for the documentation when `markdown`; JSON when `json`.
std::string CampaignHelp(bool markdown);
std::string CampaignHelpJson();
// The plan for people: steps with estimated time and bytes, warnings. Overwrites are added by the caller.
std::string FormatPlan(const Plan& plan);

}  // namespace muster
