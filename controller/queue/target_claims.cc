#include "controller/queue/target_claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

namespace muster {
namespace {

std::string NormalPath(const std::string& path) {
  std::string out = std::filesystem::path(path).lexically_normal().string();
  while (out.size() > 1 && out.back() == '/') out.pop_back();
  return out;
}

std::string LowerCase(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

uint32_t InitiatorsOn(const Plan& plan, const std::string& target) {
  uint32_t most = 1;
  for (const Step& step : plan.steps) {
    if (step.target == target) most = std::max(most, step.initiators_max);
  }
  return most;
}

class Claims {
 public:
  void Add(TargetClaim claim) {
    if (seen_.insert(claim.what).second) claims_.push_back(std::move(claim));
  }
  void AddLuns(const Plan& plan, const Target& target, const IscsiTarget& iscsi) {
    const uint32_t names = iscsi.target_each() ? InitiatorsOn(plan, target.name) : 1;
    for (uint32_t i = 0; i < names; ++i) {
      const std::string iqn = ForInitiator(iscsi.iqn, i);
      for (const uint32_t lun : iscsi.luns) {
        Add({.what = fmt::format("iscsi {} {}", LowerCase(iqn), lun),
             .shown = fmt::format("LUN {} of {}{}", lun, iqn, iscsi.portals.empty() ? "" : " at " + iscsi.portals[0]),
             .remote = true});
      }
    }
  }
  std::vector<TargetClaim> Take() { return std::move(claims_); }

 private:
  std::set<std::string> seen_;
  std::vector<TargetClaim> claims_;
};

}  // namespace

std::vector<TargetClaim> ClaimsOf(const Plan& plan) {
  Claims claims;
  for (const Target& target : plan.targets) {
    if (const auto* file = std::get_if<FileTarget>(&target.kind)) {
      const std::string dir = NormalPath(file->dir);
      claims.Add({.what = "dir " + dir, .shown = "directory " + dir});
    } else if (const auto* block = std::get_if<BlockTarget>(&target.kind)) {
      const std::string device = NormalPath(block->device);
      claims.Add({.what = "device " + device, .shown = "device " + device});
    } else if (const auto* iscsi = std::get_if<IscsiTarget>(&target.kind)) {
      claims.AddLuns(plan, target, *iscsi);
    }
  }
  return claims.Take();
}

}  // namespace muster
