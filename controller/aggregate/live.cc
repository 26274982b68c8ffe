#include "controller/aggregate/live.h"

#include <algorithm>

namespace muster {

LiveFigures LiveOf(const FleetInterval& interval, Nanos length) {
  LiveFigures out;
  out.interval = interval.interval;
  out.in_window = interval.in_window;
  out.outstanding = interval.outstanding;
  out.held = interval.held;
  const double seconds = static_cast<double>(length) / static_cast<double>(kSecond);
  Histogram pooled;
  uint64_t completed = 0;
  uint64_t bytes = 0;
  for (int k = 0; k < kOpKinds; ++k) {
    const KindFigures& kind = interval.kinds[k];
    completed += kind.completed;
    bytes += kind.bytes;
    out.iops_by_kind[k] = static_cast<double>(kind.completed) / seconds;
    // Display only: an overflow here was refused before the interval was merged.
    pooled.Merge(kind.response).IgnoreError();
  }
  out.iops = static_cast<double>(completed) / seconds;
  out.bytes_per_second = static_cast<double>(bytes) / seconds;
  out.p50 = static_cast<Nanos>(pooled.At(0.5).value);
  out.p99 = static_cast<Nanos>(pooled.At(0.99).value);
  out.p999 = static_cast<Nanos>(pooled.At(0.999).value);
  out.max = static_cast<Nanos>(pooled.moments().max);
  if (!interval.held) return out;
  for (const KindFigures& kind : interval.kinds) out.max = std::max(out.max, static_cast<Nanos>(kind.response_max));
  return out;
}

void LiveView::AddAgent(const std::string& id, bool carries) {
  Entry& entry = agents_[id];
  entry.line.agent = id;
  entry.carries = carries;
}

void LiveView::Delivered(const std::string& id, const IntervalDelta& delta, Nanos length) {
  const double seconds = static_cast<double>(length) / static_cast<double>(kSecond);
  uint64_t completed = 0;
  uint64_t bytes = 0;
  uint64_t outstanding = 0;
  Nanos oldest = 0;
  for (const InitiatorDelta& initiator : delta.initiators) {
    outstanding += initiator.outstanding;
    oldest = std::max(oldest, initiator.oldest_age);
    for (const KindDelta& kind : initiator.kinds) {
      completed += kind.completed;
      bytes += kind.bytes;
      for (const ErrorDelta& error : kind.errors) failed_ += error.count;
    }
  }
  AgentLive& line = agents_[id].line;
  line.outstanding = outstanding;
  line.oldest_age = oldest;
  if (delta.drain) return;
  patience_ = 3 + (2 * kSecond + length - 1) / length;
  front_ = std::max(front_, delta.interval);
  if (delta.interval < line.interval) return;  // late: the line shows the newest
  line.interval = delta.interval;
  line.iops = static_cast<double>(completed) / seconds;
  line.bytes_per_second = static_cast<double>(bytes) / seconds;
  line.cpu = static_cast<double>(delta.cpu_nanos) / static_cast<double>(length);
}

void LiveView::Lost(const std::string& id) {
  agents_[id].lost = true;
}

bool LiveView::Silent(const Entry& entry) const {
  return front_ - entry.line.interval > patience_;
}

bool LiveView::Enough(const std::map<std::string, IntervalDelta>& deltas, int64_t interval) const {
  if (newest_.has_value() && interval <= newest_->interval) return false;
  return std::all_of(agents_.begin(), agents_.end(), [&](const auto& entry) {
    return !entry.second.carries || entry.second.lost || Silent(entry.second) || deltas.count(entry.first) != 0;
  });
}

std::optional<LiveFigures> LiveView::Newest() const {
  if (!newest_.has_value()) return std::nullopt;
  return Complete(*newest_);
}

LiveFigures LiveView::Complete(LiveFigures figures) const {
  figures.failed = failed_;
  figures.agents.clear();
  for (const auto& [id, entry] : agents_) {
    figures.agents.push_back(entry.line);
    figures.agents.back().silent = entry.lost || (entry.carries && Silent(entry));
  }
  return figures;
}

}  // namespace muster
