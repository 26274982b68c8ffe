#include <fmt/format.h>

#include "common/base/status.h"
#include "common/wire/codec.h"
#include "controller/store/figure_codec.h"
#include "controller/store/record_codec.h"
#include "muster/v1/result.pb.h"

namespace muster {
namespace {

// The one order in which histograms of an initiator stand, in moments and in counters.
template <typename Initiator, typename Visit>
void ForEachHistogram(Initiator& initiator, Visit visit) {
  for (auto& kind : initiator.kinds) {
    visit(kind.response);
    visit(kind.wait);
    visit(kind.service);
    visit(kind.unfinished);
    for (auto& error : kind.errors) visit(error.response);
  }
  visit(initiator.lateness);
}

v1::Moments EncodeMoments(const Moments& moments) {
  v1::Moments out;
  out.set_count(moments.count);
  out.set_sum(moments.sum);
  if (moments.sum_squares != 0) *out.mutable_sum_squares() = ToProto(moments.sum_squares);
  out.set_min(moments.min);
  out.set_max(moments.max);
  out.set_overflow(moments.overflow);
  return out;
}

EncodedHistogram DecodeMoments(bool present, const v1::Moments& in) {
  EncodedHistogram out;
  if (!present) return out;
  out.moments = {.count = in.count(),
                 .sum = in.sum(),
                 .sum_squares = FromProto(in.sum_squares()),
                 .min = in.min(),
                 .max = in.max(),
                 .overflow = in.overflow()};
  return out;
}

void EncodeKind(const KindDelta& kind, v1::KindMoments& out) {
  out.set_kind(ToProto(kind.kind));
  out.set_due_in_window(kind.due_in_window);
  out.set_completed(kind.completed);
  out.set_bytes(kind.bytes);
  if (kind.response.moments.count != 0) *out.mutable_response() = EncodeMoments(kind.response.moments);
  if (kind.wait.moments.count != 0) *out.mutable_wait() = EncodeMoments(kind.wait.moments);
  if (kind.service.moments.count != 0) *out.mutable_service() = EncodeMoments(kind.service.moments);
  if (kind.unfinished.moments.count != 0) *out.mutable_unfinished() = EncodeMoments(kind.unfinished.moments);
  for (const ErrorDelta& error : kind.errors) {
    v1::ErrorMoments* to = out.add_errors();
    to->set_outcome(ToProto(error.outcome));
    to->set_native_code(error.native_code);
    to->set_count(error.count);
    if (error.response.moments.count != 0) *to->mutable_response() = EncodeMoments(error.response.moments);
  }
}

absl::StatusOr<KindDelta> DecodeKindMoments(const v1::KindMoments& in) {
  KindDelta out;
  MUSTER_ASSIGN_OR_RETURN(out.kind, DecodeKind(in.kind()));
  out.due_in_window = in.due_in_window();
  out.completed = in.completed();
  out.bytes = in.bytes();
  out.response = DecodeMoments(in.has_response(), in.response());
  out.wait = DecodeMoments(in.has_wait(), in.wait());
  out.service = DecodeMoments(in.has_service(), in.service());
  out.unfinished = DecodeMoments(in.has_unfinished(), in.unfinished());
  for (const v1::ErrorMoments& error : in.errors()) {
    ErrorDelta& to = out.errors.emplace_back();
    MUSTER_ASSIGN_OR_RETURN(to.outcome, DecodeOutcome(error.outcome()));
    to.native_code = error.native_code();
    to.count = error.count();
    to.response = DecodeMoments(error.has_response(), error.response());
  }
  return out;
}

void EncodeInitiator(const InitiatorDelta& initiator, v1::InitiatorMoments& out) {
  out.set_initiator(initiator.initiator);
  if (initiator.offered_integral != 0) *out.mutable_offered_integral() = ToProto(initiator.offered_integral);
  if (initiator.wire_integral != 0) *out.mutable_wire_integral() = ToProto(initiator.wire_integral);
  out.set_outstanding(initiator.outstanding);
  out.set_waiting(initiator.waiting);
  out.set_oldest_age_ns(initiator.oldest_age);
  out.set_time_full_ns(initiator.time_full);
  for (const KindDelta& kind : initiator.kinds) EncodeKind(kind, *out.add_kinds());
  if (initiator.lateness.moments.count != 0) *out.mutable_lateness() = EncodeMoments(initiator.lateness.moments);
}

absl::StatusOr<InitiatorDelta> DecodeInitiator(const v1::InitiatorMoments& in) {
  InitiatorDelta out;
  out.initiator = in.initiator();
  out.offered_integral = FromProto(in.offered_integral());
  out.wire_integral = FromProto(in.wire_integral());
  out.outstanding = in.outstanding();
  out.waiting = in.waiting();
  out.oldest_age = in.oldest_age_ns();
  out.time_full = in.time_full_ns();
  for (const v1::KindMoments& kind : in.kinds()) {
    MUSTER_ASSIGN_OR_RETURN(KindDelta delta, DecodeKindMoments(kind));
    out.kinds.push_back(std::move(delta));
  }
  out.lateness = DecodeMoments(in.has_lateness(), in.lateness());
  return out;
}

absl::Status AddCounts(std::string_view bytes, std::vector<InitiatorDelta>& initiators) {
  v1::IntervalCounts in;
  if (!in.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return DamagedRecord("counters of an interval");
  int next = 0;
  for (InitiatorDelta& initiator : initiators) {
    ForEachHistogram(initiator, [&](EncodedHistogram& histogram) {
      if (next < in.counts_size()) histogram.counts = in.counts(next);
      ++next;
    });
  }
  return next == in.counts_size() ? absl::OkStatus() : DamagedRecord("counters of an interval do not fit its moments");
}

}  // namespace

IntervalBlobs EncodeInterval(const FleetInterval& interval) {
  v1::IntervalResult fleet;
  fleet.set_interval(interval.interval);
  fleet.set_in_window(interval.in_window);
  for (const KindFigures& kind : interval.kinds) {
    if (kind.kind.has_value()) *fleet.add_kinds() = EncodeKindFigures(kind);
  }
  fleet.set_outstanding(interval.outstanding);
  fleet.set_waiting(interval.waiting);
  fleet.set_oldest_age_ns(interval.oldest_age);
  fleet.set_held(interval.held);
  v1::IntervalMoments moments;
  v1::IntervalCounts counts;
  for (const InitiatorDelta& initiator : interval.initiators) {
    EncodeInitiator(initiator, *moments.add_initiators());
    ForEachHistogram(initiator, [&](const EncodedHistogram& histogram) { counts.add_counts(histogram.counts); });
  }
  return {
      .fleet = fleet.SerializeAsString(), .moments = moments.SerializeAsString(), .counts = counts.SerializeAsString()};
}

absl::StatusOr<FleetInterval> DecodeInterval(std::string_view fleet, std::string_view moments,
                                             std::string_view counts) {
  v1::IntervalResult in;
  if (!in.ParseFromArray(fleet.data(), static_cast<int>(fleet.size()))) return DamagedRecord("an interval");
  FleetInterval out;
  out.interval = in.interval();
  out.in_window = in.in_window();
  for (const v1::KindResult& kind : in.kinds()) {
    MUSTER_ASSIGN_OR_RETURN(KindFigures figures, DecodeKindFigures(kind));
    if (!figures.kind.has_value()) return DamagedRecord("an interval has a row of no kind");
    const auto at = static_cast<size_t>(*figures.kind);
    out.kinds[at] = std::move(figures);
  }
  out.outstanding = in.outstanding();
  out.waiting = in.waiting();
  out.oldest_age = in.oldest_age_ns();
  out.held = in.held();
  v1::IntervalMoments initiators;
  if (!initiators.ParseFromArray(moments.data(), static_cast<int>(moments.size()))) {
    return DamagedRecord("moments of an interval");
  }
  for (const v1::InitiatorMoments& initiator : initiators.initiators()) {
    MUSTER_ASSIGN_OR_RETURN(InitiatorDelta delta, DecodeInitiator(initiator));
    out.initiators.push_back(std::move(delta));
  }
  if (!counts.empty()) MUSTER_RETURN_IF_ERROR(AddCounts(counts, out.initiators));
  return out;
}

}  // namespace muster
