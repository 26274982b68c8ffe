#pragma once
#include <string>

#include "common/base/status.h"
#include "controller/campaign/campaign.h"

namespace muster {

// The error of reading and compiling `yaml` named "c.yaml"; code "OK" when there is none.
inline ErrorInfo ErrorOf(const std::string& yaml) {
  const auto loaded = LoadCampaignText("c.yaml", yaml);
  if (!loaded.ok()) return GetErrorInfo(loaded.status());
  const auto plan = Compile(*loaded);
  if (!plan.ok()) return GetErrorInfo(plan.status());
  return {.code = "OK", .place = "", .message = "", .next = ""};
}

}  // namespace muster
