#pragma once
#include "absl/status/statusor.h"
#include "controller/aggregate/figures.h"
#include "muster/v1/result.pb.h"

namespace muster {

// Figures of kinds, groups and errors to messages and back; lossless. RUN_DAMAGED without a place.
v1::KindResult EncodeKindFigures(const KindFigures& figures);
absl::StatusOr<KindFigures> DecodeKindFigures(const v1::KindResult& in);
v1::GroupResult EncodeFigureGroup(const GroupFigures& group);
absl::StatusOr<GroupFigures> DecodeFigureGroup(const v1::GroupResult& in);
v1::ErrorCount EncodeErrorFigures(const ErrorFigures& error);
absl::StatusOr<ErrorFigures> DecodeErrorFigures(const v1::ErrorCount& in);

absl::StatusOr<OpKind> DecodeKind(v1::OpKind kind);
absl::StatusOr<Outcome> DecodeOutcome(v1::Outcome outcome);
// An absent histogram holds nothing.
absl::StatusOr<Histogram> DecodeHistogram(bool present, const v1::Histogram& in);

}  // namespace muster
