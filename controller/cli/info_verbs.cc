#include <fmt/format.h>

#include <cstdio>

#include "common/wire/version.h"
#include "controller/campaign/campaign.h"
#include "controller/cli/json_events.h"
#include "controller/cli/verbs.h"

namespace muster {

int HelpCampaignVerb(bool json, bool markdown) {
  fmt::print("{}\n", json ? CampaignHelpJson() : CampaignHelp(markdown));
  return kExitOk;
}

int VersionVerb(bool json) {
  if (json) {
    fmt::print("{}\n", JsonVersion(std::string(BuildString()), kApiMin, kApiMax));
  } else {
    fmt::print("muster {} (API {}..{})\n", BuildString(), kApiMin, kApiMax);
  }
  return kExitOk;
}

}  // namespace muster
