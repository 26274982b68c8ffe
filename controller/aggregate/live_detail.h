#pragma once
#include <map>
#include <memory>
#include <string>

#include "common/stats/op_stats.h"
#include "controller/aggregate/figures.h"

namespace muster {

// What each initiator and each agent did in one interval, from deltas that have been checked and merged. Decodes the
// histograms of at most LiveDetail::kInitiators initiators; an agent with one beyond them has no percentiles.
std::shared_ptr<const LiveDetail> DetailOf(int64_t interval, const std::map<std::string, IntervalDelta>& deltas,
                                           Nanos length);

}  // namespace muster
