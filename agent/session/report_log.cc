#include "agent/session/report_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/status.h"
#include "common/base/units.h"

namespace muster::agent {
namespace {

constexpr size_t kEntryOverhead = 64;

size_t MemoryOf(const EncodedHistogram& histogram) {
  return sizeof(histogram) + histogram.counts.size();
}

size_t MemoryOf(const KindDelta& kind) {
  size_t bytes = sizeof(kind) + kind.response.counts.size() + kind.wait.counts.size() + kind.service.counts.size() +
                 kind.unfinished.counts.size();
  for (const ErrorDelta& error : kind.errors) bytes += sizeof(error) + MemoryOf(error.response);
  return bytes;
}

size_t MemoryOf(const PhaseEnded& ended) {
  return kEntryOverhead + sizeof(ended) + ended.totals.initiators.size() * sizeof(InitiatorTotals) +
         ended.totals.stragglers.size() * sizeof(StraggleOp);
}

}  // namespace

size_t MemoryOf(const IntervalDelta& delta) {
  size_t bytes = kEntryOverhead + sizeof(delta) + delta.hiccup.counts.size();
  for (const InitiatorDelta& initiator : delta.initiators) {
    bytes += sizeof(initiator) + initiator.lateness.counts.size();
    for (const KindDelta& kind : initiator.kinds) bytes += MemoryOf(kind);
  }
  return bytes;
}

size_t MemoryOf(const HeldHistograms& held) {
  return kEntryOverhead + sizeof(held) + held.lateness.counts.size() +
         (held.kind.has_value() ? MemoryOf(*held.kind) : 0);
}

absl::Status ReportLog::CheckRoom(const PhaseKey& key, size_t more, int64_t interval) const {
  if (bytes() + more > limits_.bytes) {
    return MakeError(absl::StatusCode::kResourceExhausted,
                     {.code = "REPORT_LOG_FULL",
                      .place = KeyText(key),
                      .message = fmt::format(
                          "{} reports of {} wait to be committed and interval {} does not fit into {}", kept_.size(),
                          FormatBytesHuman(static_cast<double>(bytes())), interval, FormatSize(limits_.bytes)),
                      .next = "The controller's disk is too slow for this many agents and intervals; use a longer "
                              "interval."});
  }
  return absl::OkStatus();
}

absl::Status ReportLog::Append(const PhaseKey& key, IntervalDelta delta, int64_t warmup) {
  Enter(key, warmup);
  const Part part = PartOf(*current_, delta.interval, delta.drain);
  if (part != current_->part) {
    Keep(key, current_->coarse.Flush());
    coarse_bytes_ = 0;
  }
  const size_t bytes = MemoryOf(delta);
  Coarsen(bytes);
  MUSTER_RETURN_IF_ERROR(CheckRoom(key, bytes, delta.interval));
  Keep(Report{.key = key, .sequence = last_ + 1, .body = std::move(delta)}, bytes);
  return absl::OkStatus();
}

absl::Status ReportLog::Append(const PhaseKey& key, HeldHistograms held) {
  Enter(key, current_ && current_->key == key ? current_->warmup : 0);
  const size_t bytes = MemoryOf(held);
  Coarsen(bytes);
  MUSTER_RETURN_IF_ERROR(CheckRoom(key, bytes, held.last_interval));
  const Part part = PartOf(*current_, held.last_interval, held.drain);
  if (part == current_->part && current_->coarse.Holds(held.initiator)) {
    // Some of its intervals are coarse besides: what is merged over them comes as one.
    absl::Status joined = current_->coarse.Join(std::move(held));
    coarse_bytes_ = current_->coarse.Bytes();
    return joined;
  }
  current_->handed_out.insert({held.initiator, part});
  Keep(Report{.key = key, .sequence = last_ + 1, .body = std::move(held)}, bytes);
  return absl::OkStatus();
}

void ReportLog::AppendEnd(const PhaseKey& key, PhaseEnded ended) {
  Enter(key, current_ && current_->key == key ? current_->warmup : 0);
  Keep(key, current_->coarse.Flush());
  coarse_bytes_ = 0;
  ended.totals.coarse_deltas = current_->coarse_deltas;
  current_.reset();
  ended.totals.last_sequence = last_ + 1;
  const size_t bytes = MemoryOf(ended);
  Keep(Report{.key = key, .sequence = last_ + 1, .body = std::move(ended)}, bytes);
}

void ReportLog::Enter(const PhaseKey& key, int64_t warmup) {
  if (current_ && current_->key == key) return;
  current_.emplace(key, warmup);
  coarse_bytes_ = 0;
}

void ReportLog::Keep(const PhaseKey& key, std::vector<HeldHistograms> due) {
  for (HeldHistograms& held : due) {
    current_->handed_out.insert({held.initiator, PartOf(*current_, held.last_interval, held.drain)});
    const size_t bytes = MemoryOf(held);
    Keep(Report{.key = key, .sequence = last_ + 1, .body = std::move(held)}, bytes);
  }
}

// Oldest first, until `wanted` fits and a quarter is free: not again with every report.
void ReportLog::Coarsen(size_t wanted) {
  if (bytes() + wanted <= limits_.bytes) return;
  std::vector<HeldHistograms> due;
  for (size_t i = sent_; i < kept_.size() && bytes() + wanted > limits_.bytes / 4 * 3; ++i) {
    Entry& entry = kept_[i];
    if (entry.report->key != current_->key || !MakeCoarse(entry, due)) continue;
    ++current_->coarse_deltas;
  }
  Keep(current_->key, std::move(due));
}

// False: nothing could be taken out of it.
bool ReportLog::MakeCoarse(Entry& entry, std::vector<HeldHistograms>& due) {
  const auto* whole = std::get_if<IntervalDelta>(&entry.report->body);
  if (whole == nullptr || whole->gap) return false;
  const Part part = PartOf(*current_, whole->interval, whole->drain);
  Report report = *entry.report;
  auto& delta = std::get<IntervalDelta>(report.body);
  // What was merged of an initiator comes once for each part of the phase: past that its reports stay as they are.
  const auto kept = std::stable_partition(delta.initiators.begin(), delta.initiators.end(), [&](const auto& initiator) {
    return !initiator.held && !current_->handed_out.contains({initiator.initiator, part});
  });
  std::vector<InitiatorDelta> others(std::make_move_iterator(kept), std::make_move_iterator(delta.initiators.end()));
  delta.initiators.erase(kept, delta.initiators.end());
  const size_t before = MemoryOf(*whole);
  // A sum that passes 2^63 cannot be merged: it is then in neither, and the sums will say so.
  (void)current_->coarse.Apply(delta, due);
  current_->part = part;
  std::move(others.begin(), others.end(), std::back_inserter(delta.initiators));
  const size_t after = MemoryOf(delta);
  if (after == before) return false;
  coarse_bytes_ = current_->coarse.Bytes();
  entry.report = std::make_shared<const Report>(std::move(report));
  bytes_ -= entry.bytes - after;
  entry.bytes = after;
  return true;
}

void ReportLog::Keep(Report report, size_t bytes) {
  last_ = report.sequence;
  kept_.push_back({std::make_shared<const Report>(std::move(report)), bytes});
  bytes_ += bytes;
}

std::shared_ptr<const Report> ReportLog::NextToSend() {
  if (sent_ == kept_.size()) return nullptr;
  const Entry& next = kept_[sent_];
  if (sent_ > 0 && (sent_ >= limits_.window_reports || sent_bytes_ + next.bytes > limits_.window_bytes)) return nullptr;
  ++sent_;
  sent_bytes_ += next.bytes;
  return next.report;
}

absl::Status ReportLog::Commit(uint64_t sequence) {
  const uint64_t last_sent = sent_ == 0 ? committed_ : kept_[sent_ - 1].report->sequence;
  if (sequence <= committed_) return absl::OkStatus();
  if (sequence > last_sent) {
    return MakeError(absl::StatusCode::kInvalidArgument,
                     {.code = "BAD_ACK",
                      .place = "ReportAck",
                      .message = fmt::format("{} acknowledged, but {} was committed and {} sent last", sequence,
                                             committed_, last_sent),
                      .next = "The controller runs another or a damaged version."});
  }
  committed_ = sequence;
  while (!kept_.empty() && kept_.front().report->sequence <= sequence) {
    bytes_ -= kept_.front().bytes;
    sent_bytes_ -= kept_.front().bytes;
    --sent_;
    kept_.pop_front();
  }
  return absl::OkStatus();
}

absl::Status ReportLog::Resume(uint64_t committed, uint64_t received) {
  const uint64_t last_sent = sent_ == 0 ? committed_ : kept_[sent_ - 1].report->sequence;
  if (received > last_sent || received < committed_ || committed > received) {
    return MakeError(absl::StatusCode::kInvalidArgument,
                     {.code = "BAD_ACK",
                      .place = "HelloReply",
                      .message = fmt::format("{} committed and {} received, but {} was committed and {} sent last",
                                             committed, received, committed_, last_sent),
                      .next = "The controller runs another or a damaged version."});
  }
  MUSTER_RETURN_IF_ERROR(Commit(std::max(committed, committed_)));
  while (sent_ > 0 && kept_[sent_ - 1].report->sequence > received) sent_bytes_ -= kept_[--sent_].bytes;
  return absl::OkStatus();
}

size_t ReportLog::Forget() {
  const size_t dropped = kept_.size();
  kept_.clear();
  current_.reset();
  coarse_bytes_ = 0;
  sent_ = sent_bytes_ = bytes_ = 0;
  committed_ = last_;
  return dropped;
}

}  // namespace muster::agent
