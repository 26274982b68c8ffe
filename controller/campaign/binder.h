#pragma once
#include <string>

#include "controller/campaign/campaign.h"
#include "controller/campaign/problems.h"
#include "controller/campaign/yaml_tree.h"

namespace muster {

// Fills campaign.message (and positions, keys) from the tree by reflection over the messages and their rules, then the
// defaults of what was left out. Knows no option by name.
void BindCampaign(const YamlNode& root, LoadedCampaign& campaign, Problems& problems);

}  // namespace muster
