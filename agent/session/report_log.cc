#include "agent/session/report_log.h"

#include <fmt/format.h>

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

absl::Status ReportLog::CheckRoom(const PhaseKey& key, size_t bytes, int64_t interval) const {
  if (bytes_ + bytes > limits_.bytes) {
    return MakeError(absl::StatusCode::kResourceExhausted,
                     {.code = "REPORT_LOG_FULL",
                      .place = KeyText(key),
                      .message = fmt::format(
                          "{} reports of {} wait to be committed and interval {} does not fit into {}", kept_.size(),
                          FormatBytesHuman(static_cast<double>(bytes_)), interval, FormatSize(limits_.bytes)),
                      .next = "The controller's disk is too slow for this many agents and intervals; use a longer "
                              "interval."});
  }
  return absl::OkStatus();
}

absl::Status ReportLog::Append(const PhaseKey& key, IntervalDelta delta) {
  const size_t bytes = MemoryOf(delta);
  MUSTER_RETURN_IF_ERROR(CheckRoom(key, bytes, delta.interval));
  Keep(Report{.key = key, .sequence = last_ + 1, .body = std::move(delta)}, bytes);
  return absl::OkStatus();
}

absl::Status ReportLog::Append(const PhaseKey& key, HeldHistograms held) {
  const size_t bytes = MemoryOf(held);
  MUSTER_RETURN_IF_ERROR(CheckRoom(key, bytes, held.last_interval));
  Keep(Report{.key = key, .sequence = last_ + 1, .body = std::move(held)}, bytes);
  return absl::OkStatus();
}

void ReportLog::AppendEnd(const PhaseKey& key, PhaseEnded ended) {
  ended.totals.last_sequence = last_ + 1;
  const size_t bytes = MemoryOf(ended);
  Keep(Report{.key = key, .sequence = last_ + 1, .body = std::move(ended)}, bytes);
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
  if (sequence < committed_ || sequence > last_sent) {
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

size_t ReportLog::Forget() {
  const size_t dropped = kept_.size();
  kept_.clear();
  sent_ = sent_bytes_ = bytes_ = 0;
  committed_ = last_;
  return dropped;
}

}  // namespace muster::agent
