#pragma once
#include <string>
#include <vector>

#include "common/plan/plan.h"

namespace muster {

// What a run takes hold of, so that no other run uses it at the same time.
struct TargetClaim {
  std::string what;     // identity, compared as it is
  std::string shown;    // for people: "LUN 3 of iqn... at 192.0.2.1:3260"
  bool remote = false;  // the same from every host; else it belongs to the host of each agent
};

// The claims of a plan, each once. A target is what it is, not what a campaign calls it:
// - a LUN: the target's name and the LUN number. iSCSI names are unique in the world (RFC 7143, 4.2.7), so a LUN that
// is
//   reached through another portal is the same LUN; the case of a name does not count.
// - a device or a directory: its normalised path on each host. Two names of one device on one host are not seen here;
//   the write guard's exclusive hold is what refuses those.
// - null targets touch nothing and are never claimed.
std::vector<TargetClaim> ClaimsOf(const Plan& plan);

}  // namespace muster
