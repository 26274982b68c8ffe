#include "controller/store/figure_codec.h"

#include <fmt/format.h>

#include "common/base/status.h"
#include "common/wire/codec.h"
#include "controller/store/record_codec.h"

namespace muster {
namespace {

bool NoWait(const KindFigures& figures) {
  return figures.wait.count() == figures.response.count() && figures.wait.moments().max == 0 &&
         figures.service == figures.response;
}

}  // namespace

absl::StatusOr<OpKind> DecodeKind(v1::OpKind kind) {
  if (kind < v1::OP_KIND_READ || kind > v1::OP_KIND_TRIM) return DamagedRecord("kind of operation");
  return static_cast<OpKind>(static_cast<int>(kind) - static_cast<int>(v1::OP_KIND_READ));
}

absl::StatusOr<Outcome> DecodeOutcome(v1::Outcome outcome) {
  if (outcome < v1::OUTCOME_OK || outcome > v1::OUTCOME_OTHER) return DamagedRecord("class of a failure");
  return static_cast<Outcome>(static_cast<int>(outcome) - static_cast<int>(v1::OUTCOME_OK));
}

absl::StatusOr<Histogram> DecodeHistogram(bool present, const v1::Histogram& in) {
  if (!present) return Histogram();
  auto encoded = FromProto(in);
  if (!encoded.ok()) return DamagedRecord(FormatError(encoded.status()));
  auto histogram = Histogram::Decode(*encoded);
  if (!histogram.ok()) return DamagedRecord(FormatError(histogram.status()));
  return histogram;
}

v1::KindResult EncodeKindFigures(const KindFigures& figures) {
  v1::KindResult out;
  if (figures.kind.has_value()) out.set_kind(ToProto(*figures.kind));
  out.set_completed(figures.completed);
  out.set_bytes(figures.bytes);
  out.set_failed(figures.failed);
  out.set_response_max_ns(figures.response_max);
  out.set_no_wait(NoWait(figures));
  if (figures.response.count() != 0) *out.mutable_response() = ToProto(figures.response.Encode());
  if (out.no_wait()) return out;
  if (figures.wait.count() != 0) *out.mutable_wait() = ToProto(figures.wait.Encode());
  if (figures.service.count() != 0) *out.mutable_service() = ToProto(figures.service.Encode());
  return out;
}

absl::StatusOr<KindFigures> DecodeKindFigures(const v1::KindResult& in) {
  KindFigures out;
  if (in.kind() != v1::OP_KIND_UNSPECIFIED) {
    MUSTER_ASSIGN_OR_RETURN(out.kind, DecodeKind(in.kind()));
  }
  out.completed = in.completed();
  out.bytes = in.bytes();
  out.failed = in.failed();
  out.response_max = in.response_max_ns();
  MUSTER_ASSIGN_OR_RETURN(out.response, DecodeHistogram(in.has_response(), in.response()));
  if (in.no_wait()) {
    out.service = out.response;
    MUSTER_RETURN_IF_ERROR(out.wait.RecordMany(0, out.response.count()));
    return out;
  }
  MUSTER_ASSIGN_OR_RETURN(out.wait, DecodeHistogram(in.has_wait(), in.wait()));
  MUSTER_ASSIGN_OR_RETURN(out.service, DecodeHistogram(in.has_service(), in.service()));
  return out;
}

v1::GroupResult EncodeFigureGroup(const GroupFigures& group) {
  v1::GroupResult out;
  out.set_name(group.name);
  out.set_agent(group.agent);
  for (const KindFigures& kind : group.kinds) *out.add_kinds() = EncodeKindFigures(kind);
  out.set_asked_depth(group.asked_depth);
  out.set_achieved_depth(group.achieved_depth);
  out.set_wire_depth(group.wire_depth);
  out.set_time_full_share(group.time_full_share);
  if (group.lateness.count() != 0) *out.mutable_lateness() = ToProto(group.lateness.Encode());
  return out;
}

absl::StatusOr<GroupFigures> DecodeFigureGroup(const v1::GroupResult& in) {
  GroupFigures out;
  out.name = in.name();
  out.agent = in.agent();
  for (const v1::KindResult& kind : in.kinds()) {
    MUSTER_ASSIGN_OR_RETURN(KindFigures figures, DecodeKindFigures(kind));
    out.kinds.push_back(std::move(figures));
  }
  out.asked_depth = in.asked_depth();
  out.achieved_depth = in.achieved_depth();
  out.wire_depth = in.wire_depth();
  out.time_full_share = in.time_full_share();
  MUSTER_ASSIGN_OR_RETURN(out.lateness, DecodeHistogram(in.has_lateness(), in.lateness()));
  return out;
}

v1::ErrorCount EncodeErrorFigures(const ErrorFigures& error) {
  v1::ErrorCount out;
  out.set_kind(ToProto(error.kind));
  out.set_outcome(ToProto(error.outcome));
  out.set_native_code(error.native_code);
  out.set_count(error.count);
  if (error.response.count() != 0) *out.mutable_response() = ToProto(error.response.Encode());
  return out;
}

absl::StatusOr<ErrorFigures> DecodeErrorFigures(const v1::ErrorCount& in) {
  ErrorFigures out;
  MUSTER_ASSIGN_OR_RETURN(out.kind, DecodeKind(in.kind()));
  MUSTER_ASSIGN_OR_RETURN(out.outcome, DecodeOutcome(in.outcome()));
  out.native_code = in.native_code();
  out.count = in.count();
  MUSTER_ASSIGN_OR_RETURN(out.response, DecodeHistogram(in.has_response(), in.response()));
  return out;
}

}  // namespace muster
