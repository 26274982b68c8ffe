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
  std::string text;  // the file's bytes
  std::string file;  // as named by the user, for messages
  // Field path ("steps[0].workload.size") -> where its value stands; absent for fields that were left out.
  std::map<std::string, SourcePosition, std::less<>> positions;
  // The same, where its key stands.
  std::map<std::string, SourcePosition, std::less<>> keys;

  // The file says so, it is no default.
  bool IsGiven(std::string_view field_path) const { return positions.contains(field_path); }
  // Of the field's value, or of the nearest enclosing one that was written.
  SourcePosition At(std::string_view field_path) const;
  SourcePosition KeyAt(std::string_view field_path) const;
  // "file:line:column" of At.
  std::string Place(std::string_view field_path) const;
  // The same of where each target's name stands, by name: for what is found out about targets later.
  std::map<std::string, std::string> TargetPlaces() const;
};

// Reads and binds a YAML file. Every problem is a typed error "file:line:column: message" (CAMPAIGN_UNREADABLE,
// YAML_SYNTAX, YAML_LIMIT, YAML_DUPLICATE_KEY, YAML_ANCHOR, YAML_TAG, YAML_DOCUMENTS, NULL_VALUE, UNKNOWN_KEY with
// did-you-mean, WRONG_TYPE, UNIT_SYNTAX, UNIT_RANGE, ENUM_UNKNOWN, MISSING_KEY, CONTRADICTION for two kinds of one
// target). Limits: 1 MiB, depth 32, 100,000 nodes. With several problems the error is that of the first in the file
// and its `next` lists the others, a line each. Blocks for the read of a regular file; anything else is refused.
absl::StatusOr<LoadedCampaign> LoadCampaign(const std::string& path);
absl::StatusOr<LoadedCampaign> LoadCampaignText(const std::string& file, const std::string& text);

// Checks what single fields cannot (contradictory options, names that do not exist, sets too small ...) and compiles
// the sweeps into steps. Typed errors with place: CONTRADICTION, UNKNOWN_TARGET, DUPLICATE_STEP, DUPLICATE_POINT,
// SET_TOO_SMALL, SET_TOO_LARGE, WINDOW_NOT_WHOLE, BLOCK_NOT_ALIGNED, MISSING_KEY, UNIT_RANGE, PLAN_TOO_LARGE (10,000
// steps, 65,536 objects of a target, 2,000,000 objects in all steps). A swept point that cannot be measured is a step
// with skip_reason as long as another point of its step can. Each step has its own seed, mixed from the campaign's and
// its index, so that a point does not repeat the accesses of the one before. Pure, thread-safe.
absl::StatusOr<Plan> Compile(const LoadedCampaign& campaign);

// Fills in the values of the plan's secrets: environment and files of this process. SECRET_MISSING with the campaign's
// place. From then on the process makes no core dump.
absl::Status ResolveSecrets(const LoadedCampaign& campaign, Plan& plan);

// The same of one secret that has a reference; `place` is for the error.
absl::Status ResolveSecret(Secret& secret, const std::string& place);

// `muster help campaign`: every option with unit, limits, default and one line, from the descriptors. Markdown table
// form for the documentation when `markdown`, else lines of at most `width` columns, from 60 on.
std::string CampaignHelp(bool markdown, size_t width = 100);
std::string CampaignHelpJson();
// Bytes of I/O buffers that the agent with the largest share of a step's initiators, dealt over `agents`, keeps at
// once: operations it may have outstanding, times the block in whole pages (fills have a depth and block of their own).
// At least 1 agent. What an agent checks at Prepare is the same figure.
uint64_t BufferBytes(const Step& step, uint32_t agents);
// A quarter of this machine's memory: an agent's bound unless --max-buffer-memory says otherwise.
uint64_t DefaultBufferBound();
// BUFFER_MEMORY for the first step whose share does not fit into `bound` with that many agents; steps that are skipped
// need none.
absl::Status CheckBuffers(const Plan& plan, uint32_t agents, uint64_t bound);

// The plan for people: steps with estimated time and bytes, warnings. Overwrites are added by the caller.
std::string FormatPlan(const Plan& plan);

}  // namespace muster
