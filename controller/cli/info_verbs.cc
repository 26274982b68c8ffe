#include <fmt/format.h>

#include <cstdio>

#include "common/wire/version.h"
#include "controller/campaign/campaign.h"
#include "controller/cli/json_events.h"
#include "controller/cli/output.h"
#include "controller/cli/verbs.h"

namespace muster {

int HelpCampaignVerb(bool json, bool markdown) {
  Out("{}\n", json ? CampaignHelpJson() : CampaignHelp(markdown, OutWidth(60, 120, 100)));
  return kExitOk;
}

int VersionVerb(bool json) {
  if (json) {
    Out("{}\n", JsonVersion(std::string(BuildString()), kApiMin, kApiMax));
  } else {
    Out("muster {} (API {}..{})\n", BuildString(), kApiMin, kApiMax);
  }
  return kExitOk;
}

}  // namespace muster
