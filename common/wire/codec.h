#pragma once
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/plan/plan.h"
#include "common/stats/held_histograms.h"
#include "common/stats/op_stats.h"
#include "muster/v1/agent_link.pb.h"
#include "muster/v1/campaign.pb.h"
#include "muster/v1/common.pb.h"
#include "muster/v1/report.pb.h"

namespace muster {

// Between wire messages and plain structs. Decoders check what a rule cannot (layout of histograms, kinds, slots,
// sizes) and return typed errors naming the field; they allocate nothing beyond the checked message.

v1::PhaseKind ToProto(PhaseKind kind);
absl::StatusOr<PhaseKind> FromProto(v1::PhaseKind kind);
v1::PhaseKey ToProto(const PhaseKey& key);
absl::StatusOr<PhaseKey> FromProto(const v1::PhaseKey& key);

v1::Error ToProto(const absl::Status& status);
absl::Status FromProto(const v1::Error& error);  // OK never comes out of it: an Error message is an error

v1::Histogram ToProto(const EncodedHistogram& histogram);
absl::StatusOr<EncodedHistogram> FromProto(const v1::Histogram& histogram);
v1::Uint128 ToProto(Uint128 value);
Uint128 FromProto(const v1::Uint128& value);

v1::IntervalDelta ToProto(const IntervalDelta& delta);
absl::StatusOr<IntervalDelta> FromProto(const v1::IntervalDelta& delta);
v1::HeldHistograms ToProto(const HeldHistograms& held);
absl::StatusOr<HeldHistograms> FromProto(const v1::HeldHistograms& held);
v1::ConnectionTotals ToProto(const ConnectionTotals& totals);
ConnectionTotals FromProto(const v1::ConnectionTotals& totals);
v1::PhaseTotals ToProto(const PhaseTotals& totals);
absl::StatusOr<PhaseTotals> FromProto(const v1::PhaseTotals& totals);

v1::OpKind ToProto(OpKind kind);
v1::Outcome ToProto(Outcome outcome);
absl::StatusOr<OpKind> FromProto(v1::OpKind kind);
absl::StatusOr<Outcome> FromProto(v1::Outcome outcome);

// Named facts, as Describe and Evidence give them. At most `limit` (>= 1) go out, the last
// of them then saying how many were left out; text is made to fit (common/wire/text.h).
using Facts = std::vector<std::pair<std::string, std::string>>;
void ToProto(const Facts& facts, size_t limit, google::protobuf::RepeatedPtrField<v1::Fact>* out);
Facts FromProto(const google::protobuf::RepeatedPtrField<v1::Fact>& facts);

// Campaign messages are also those of Prepare: one codec for both ends.
absl::StatusOr<Target> FromProto(const std::string& name, const v1::Target& target);
v1::Target ToProto(const Target& target);
// With what secrets are: for messages to agents alone.
v1::Target ToProtoWithSecrets(const Target& target);
// The workload part that the message carries; size, load and seed come from MeasureSpec. Workload.size and
// size_per_initiator are the campaign's wording of total_size: not needed here, refused when they contradict it.
// NullTarget::size has no wire form: it belongs to tests that build the struct themselves.
absl::StatusOr<MeasureSpec> FromProto(const v1::MeasureSpec& spec);
v1::MeasureSpec ToProto(const MeasureSpec& spec);
absl::StatusOr<FillSpec> FromProto(const v1::FillSpec& spec);
v1::FillSpec ToProto(const FillSpec& spec);
absl::StatusOr<std::vector<ObjectSpec>> FromProto(const google::protobuf::RepeatedPtrField<v1::ObjectSpec>& objects);
void ToProto(const std::vector<ObjectSpec>& objects, google::protobuf::RepeatedPtrField<v1::ObjectSpec>* out);
// Whole Prepare. `key` etc. included; the deadline is left to the caller (it is not part of the spec).
absl::StatusOr<PhaseSpec> FromProto(const v1::Prepare& prepare);
v1::Prepare ToProto(const PhaseSpec& spec);

}  // namespace muster
