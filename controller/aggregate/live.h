#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/stats/op_stats.h"
#include "controller/aggregate/figures.h"

namespace muster {

// Rates and pooled percentiles of one interval; agents and `failed` are left to LiveView.
LiveFigures LiveOf(const FleetInterval& interval, Nanos length);

// What the live display needs to remember: the newest closed interval and one line an agent.
class LiveView {
 public:
  void AddAgent(const std::string& id, bool carries);
  void Delivered(const std::string& id, const IntervalDelta& delta, Nanos length);
  void Lost(const std::string& id);
  void Closed(LiveFigures figures) { newest_ = std::move(figures); }
  // Every agent that is neither lost nor silent has delivered the interval. An agent is silent when it is more than
  // 2 s + 3 intervals behind the newest report of any agent (told by the reports themselves).
  bool Enough(const std::map<std::string, IntervalDelta>& deltas, int64_t interval) const;
  std::optional<LiveFigures> Newest() const;
  // Adds the agents' lines and the failures so far.
  LiveFigures Complete(LiveFigures figures) const;

 private:
  struct Entry {
    AgentLive line;
    bool carries = false, lost = false;
  };
  bool Silent(const Entry& entry) const;

  std::map<std::string, Entry> agents_;
  std::optional<LiveFigures> newest_;
  int64_t front_ = -1;  // newest interval any agent delivered
  int64_t patience_ = 5;
  uint64_t failed_ = 0;
};

}  // namespace muster
