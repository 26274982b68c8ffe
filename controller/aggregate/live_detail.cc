#include "controller/aggregate/live_detail.h"

#include <algorithm>

namespace muster {
namespace {

struct Source {
  const InitiatorDelta* delta;
  const std::string* agent;
};

struct AgentSum {
  Histogram response;
  bool whole = true;
};

std::optional<LivePercentiles> PercentilesOf(const Histogram& response) {
  if (response.count() == 0) return std::nullopt;
  return LivePercentiles{.p50 = static_cast<Nanos>(response.At(0.5).value),
                         .p99 = static_cast<Nanos>(response.At(0.99).value)};
}

}  // namespace

std::shared_ptr<const LiveDetail> DetailOf(int64_t interval, const std::map<std::string, IntervalDelta>& deltas,
                                           Nanos length) {
  auto out = std::make_shared<LiveDetail>();
  out->interval = interval;
  const double seconds = static_cast<double>(length) / static_cast<double>(kSecond);
  std::vector<Source> sources;
  std::map<std::string, AgentSum> sums;
  for (const auto& [agent, delta] : deltas) {
    sums[agent];
    for (const InitiatorDelta& initiator : delta.initiators) sources.push_back({&initiator, &agent});
  }
  std::sort(sources.begin(), sources.end(),
            [](const Source& a, const Source& b) { return a.delta->initiator < b.delta->initiator; });
  for (size_t at = LiveDetail::kInitiators; at < sources.size(); ++at) {
    sums[*sources[at].agent].whole = false;
    ++out->left_out;
  }
  sources.resize(std::min(sources.size(), LiveDetail::kInitiators));
  out->initiators.reserve(sources.size());
  for (const auto& [delta, agent] : sources) {
    InitiatorLive& line = out->initiators.emplace_back();
    line.initiator = delta->initiator;
    line.agent = *agent;
    line.outstanding = delta->outstanding;
    AgentSum& sum = sums[*agent];
    Histogram response;
    for (const KindDelta& kind : delta->kinds) {
      line.iops += static_cast<double>(kind.completed) / seconds;
      line.bytes_per_second += static_cast<double>(kind.bytes) / seconds;
      // Display only: what is damaged was refused before the interval was merged.
      if (!delta->held) response.Merge(kind.response).IgnoreError();
    }
    sum.whole = sum.whole && !delta->held;
    if (delta->held) continue;
    line.latency = PercentilesOf(response);
    sum.response.Merge(response).IgnoreError();
  }
  for (const auto& [agent, sum] : sums) {
    out->agents[agent] = sum.whole ? PercentilesOf(sum.response) : std::nullopt;
  }
  return out;
}

}  // namespace muster
