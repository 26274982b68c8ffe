#include <fmt/format.h>

#include <algorithm>

#include "common/wire/codec.h"
#include "common/wire/invalid.h"

namespace muster {
namespace {

// Limits of the repeated fields' rules in report.proto that a correct engine keeps by construction.
constexpr int kMaxInitiator = 65535;

// A histogram without values is left out of the message that would carry it.
void Put(const EncodedHistogram& histogram, v1::Histogram* (v1::KindDelta::*mutable_field)(), v1::KindDelta* out) {
  if (histogram.moments.count != 0) *(out->*mutable_field)() = ToProto(histogram);
}

absl::Status Get(bool present, const v1::Histogram& from, const char* field, EncodedHistogram* to) {
  if (!present) return absl::OkStatus();
  auto decoded = FromProto(from);
  if (!decoded.ok()) return AtPlace(decoded.status(), field);
  *to = *std::move(decoded);
  return absl::OkStatus();
}

absl::Status CheckInitiator(uint32_t initiator) {
  if (initiator > kMaxInitiator) return InvalidField("initiator", fmt::format("{} is no initiator index", initiator));
  return absl::OkStatus();
}

v1::KindDelta Encode(const KindDelta& delta) {
  v1::KindDelta out;
  out.set_kind(ToProto(delta.kind));
  out.set_due_in_window(delta.due_in_window);
  out.set_completed(delta.completed);
  out.set_bytes(delta.bytes);
  Put(delta.response, &v1::KindDelta::mutable_response, &out);
  Put(delta.wait, &v1::KindDelta::mutable_wait, &out);
  Put(delta.service, &v1::KindDelta::mutable_service, &out);
  Put(delta.unfinished, &v1::KindDelta::mutable_unfinished, &out);
  for (const ErrorDelta& error : delta.errors) {
    v1::ErrorDelta* e = out.add_errors();
    e->set_outcome(ToProto(error.outcome));
    e->set_native_code(error.native_code);
    e->set_count(error.count);
    if (error.response.moments.count != 0) *e->mutable_response() = ToProto(error.response);
  }
  return out;
}

absl::StatusOr<KindDelta> Decode(const v1::KindDelta& delta) {
  KindDelta out;
  MUSTER_ASSIGN_OR_RETURN(out.kind, FromProto(delta.kind()));
  out.due_in_window = delta.due_in_window();
  out.completed = delta.completed();
  out.bytes = delta.bytes();
  MUSTER_RETURN_IF_ERROR(Get(delta.has_response(), delta.response(), "response", &out.response));
  MUSTER_RETURN_IF_ERROR(Get(delta.has_wait(), delta.wait(), "wait", &out.wait));
  MUSTER_RETURN_IF_ERROR(Get(delta.has_service(), delta.service(), "service", &out.service));
  MUSTER_RETURN_IF_ERROR(Get(delta.has_unfinished(), delta.unfinished(), "unfinished", &out.unfinished));
  out.errors.reserve(delta.errors_size());
  for (const v1::ErrorDelta& e : delta.errors()) {
    ErrorDelta error;
    MUSTER_ASSIGN_OR_RETURN(error.outcome, FromProto(e.outcome()));
    if (error.outcome == Outcome::kOk) return InvalidField("errors.outcome", "success is listed as a failure");
    error.native_code = e.native_code();
    error.count = e.count();
    MUSTER_RETURN_IF_ERROR(Get(e.has_response(), e.response(), "errors.response", &error.response));
    out.errors.push_back(std::move(error));
  }
  return out;
}

v1::InitiatorDelta Encode(const InitiatorDelta& delta) {
  v1::InitiatorDelta out;
  out.set_initiator(delta.initiator);
  *out.mutable_offered_integral() = ToProto(delta.offered_integral);
  *out.mutable_wire_integral() = ToProto(delta.wire_integral);
  out.set_outstanding(delta.outstanding);
  out.set_waiting(delta.waiting);
  out.set_oldest_age_ns(static_cast<uint64_t>(delta.oldest_age));
  out.set_time_full_ns(static_cast<uint64_t>(delta.time_full));
  for (const KindDelta& kind : delta.kinds) *out.add_kinds() = Encode(kind);
  if (delta.lateness.moments.count != 0) *out.mutable_lateness() = ToProto(delta.lateness);
  out.set_held(delta.held);
  return out;
}

absl::Status GetNanos(uint64_t from, const char* field, Nanos* to) {
  if (from > static_cast<uint64_t>(kNever)) return InvalidField(field, fmt::format("{} ns is no duration", from));
  *to = static_cast<Nanos>(from);
  return absl::OkStatus();
}

absl::StatusOr<InitiatorDelta> Decode(const v1::InitiatorDelta& delta) {
  InitiatorDelta out;
  MUSTER_RETURN_IF_ERROR(CheckInitiator(delta.initiator()));
  out.initiator = delta.initiator();
  out.offered_integral = FromProto(delta.offered_integral());
  out.wire_integral = FromProto(delta.wire_integral());
  out.outstanding = delta.outstanding();
  out.waiting = delta.waiting();
  MUSTER_RETURN_IF_ERROR(GetNanos(delta.oldest_age_ns(), "oldest_age_ns", &out.oldest_age));
  MUSTER_RETURN_IF_ERROR(GetNanos(delta.time_full_ns(), "time_full_ns", &out.time_full));
  out.kinds.reserve(delta.kinds_size());
  for (const v1::KindDelta& k : delta.kinds()) {
    auto kind = Decode(k);
    if (!kind.ok()) return AtPlace(kind.status(), fmt::format("kinds[{}]", out.kinds.size()));
    const bool twice = std::any_of(out.kinds.begin(), out.kinds.end(), [&](const KindDelta& other) {
      return other.kind == kind->kind && other.due_in_window == kind->due_in_window;
    });
    if (twice) return InvalidField("kinds", fmt::format("{} is listed twice", OpKindName(kind->kind)));
    out.kinds.push_back(*std::move(kind));
  }
  MUSTER_RETURN_IF_ERROR(Get(delta.has_lateness(), delta.lateness(), "lateness", &out.lateness));
  out.held = delta.held();
  return out;
}

}  // namespace

v1::IntervalDelta ToProto(const IntervalDelta& delta) {
  v1::IntervalDelta out;
  out.set_interval(delta.interval);
  out.set_drain(delta.drain);
  out.set_gap(delta.gap);
  out.set_length_ns(delta.length);
  out.set_edge_error_ns(delta.edge_error);
  out.set_stamp_error_ns(delta.stamp_error);
  out.set_poll_gap_max_ns(delta.poll_gap_max);
  out.set_cpu_ns(delta.cpu_nanos);
  if (delta.hiccup.moments.count != 0) *out.mutable_hiccup() = ToProto(delta.hiccup);
  for (const InitiatorDelta& initiator : delta.initiators) *out.add_initiators() = Encode(initiator);
  return out;
}

absl::StatusOr<IntervalDelta> FromProto(const v1::IntervalDelta& delta) {
  IntervalDelta out;
  out.interval = delta.interval();
  out.drain = delta.drain();
  out.gap = delta.gap();
  out.length = delta.length_ns();
  out.edge_error = delta.edge_error_ns();
  out.stamp_error = delta.stamp_error_ns();
  out.poll_gap_max = delta.poll_gap_max_ns();
  out.cpu_nanos = delta.cpu_ns();
  MUSTER_RETURN_IF_ERROR(Get(delta.has_hiccup(), delta.hiccup(), "hiccup", &out.hiccup));
  out.initiators.reserve(delta.initiators_size());
  for (const v1::InitiatorDelta& i : delta.initiators()) {
    auto initiator = Decode(i);
    if (!initiator.ok()) return AtPlace(initiator.status(), fmt::format("initiators[{}]", out.initiators.size()));
    out.initiators.push_back(*std::move(initiator));
  }
  return out;
}

v1::HeldHistograms ToProto(const HeldHistograms& held) {
  v1::HeldHistograms out;
  out.set_initiator(held.initiator);
  out.set_first_interval(held.first_interval);
  out.set_last_interval(held.last_interval);
  out.set_intervals(held.intervals);
  out.set_drain(held.drain);
  if (held.kind.has_value()) *out.mutable_kind() = Encode(*held.kind);
  if (held.lateness.moments.count != 0) *out.mutable_lateness() = ToProto(held.lateness);
  return out;
}

absl::StatusOr<HeldHistograms> FromProto(const v1::HeldHistograms& held) {
  HeldHistograms out;
  MUSTER_RETURN_IF_ERROR(CheckInitiator(held.initiator()));
  out.initiator = held.initiator();
  out.first_interval = held.first_interval();
  out.last_interval = held.last_interval();
  out.intervals = held.intervals();
  out.drain = held.drain();
  if (held.has_kind()) {
    auto kind = Decode(held.kind());
    if (!kind.ok()) return AtPlace(kind.status(), "kind");
    out.kind = *std::move(kind);
  }
  MUSTER_RETURN_IF_ERROR(Get(held.has_lateness(), held.lateness(), "lateness", &out.lateness));
  return out;
}

v1::ConnectionTotals ToProto(const ConnectionTotals& totals) {
  v1::ConnectionTotals out;
  out.set_initiator(totals.initiator);
  out.set_connection(totals.connection);
  out.set_down_ns(totals.down);
  for (const auto& [name, value] : totals.counters) {
    v1::ConnectionCounter* counter = out.add_counters();
    counter->set_name(name);
    counter->set_value(value);
  }
  return out;
}

ConnectionTotals FromProto(const v1::ConnectionTotals& totals) {
  ConnectionTotals out{
      .initiator = totals.initiator(), .connection = totals.connection(), .down = totals.down_ns(), .counters = {}};
  out.counters.reserve(totals.counters_size());
  for (const v1::ConnectionCounter& counter : totals.counters()) {
    out.counters.emplace_back(counter.name(), counter.value());
  }
  return out;
}

v1::PhaseTotals ToProto(const PhaseTotals& totals) {
  v1::PhaseTotals out;
  for (const InitiatorTotals& initiator : totals.initiators) {
    v1::InitiatorTotals* i = out.add_initiators();
    i->set_initiator(initiator.initiator);
    for (int kind = 0; kind < kOpKinds; ++kind) {
      const KindTotals& from = initiator.kinds[kind];
      if (from == KindTotals{}) continue;
      v1::KindTotals* k = i->add_kinds();
      k->set_kind(ToProto(static_cast<OpKind>(kind)));
      k->set_submitted(from.submitted);
      k->set_completed(from.completed);
      k->set_failed(from.failed);
      k->set_aborted(from.aborted);
      k->set_abandoned(from.abandoned);
      k->set_bytes(from.bytes);
    }
  }
  out.set_straggle_count(totals.straggle_count);
  for (const StraggleOp& op : totals.stragglers) {
    v1::StraggleOp* s = out.add_stragglers();
    s->set_initiator(op.initiator);
    s->set_kind(ToProto(op.kind));
    s->set_age_at_end_ns(op.age_at_end);
    s->set_final_age_ns(op.final_age);
    s->set_ended(op.ended);
  }
  out.set_last_sequence(totals.last_sequence);
  out.set_coarse_deltas(totals.coarse_deltas);
  out.set_last_interval(totals.last_interval);
  out.set_overloaded(totals.overloaded);
  out.set_poisoned(totals.poisoned);
  for (const ConnectionTotals& connection : totals.connections) *out.add_connections() = ToProto(connection);
  return out;
}

absl::StatusOr<PhaseTotals> FromProto(const v1::PhaseTotals& totals) {
  PhaseTotals out;
  out.initiators.reserve(totals.initiators_size());
  for (const v1::InitiatorTotals& i : totals.initiators()) {
    MUSTER_RETURN_IF_ERROR(CheckInitiator(i.initiator()));
    InitiatorTotals& initiator = out.initiators.emplace_back();
    initiator.initiator = i.initiator();
    std::array<bool, kOpKinds> seen{};
    for (const v1::KindTotals& k : i.kinds()) {
      MUSTER_ASSIGN_OR_RETURN(const OpKind kind, FromProto(k.kind()));
      const size_t index = static_cast<size_t>(kind);
      if (seen[index]) return InvalidField("totals.kinds", fmt::format("{} is listed twice", OpKindName(kind)));
      seen[index] = true;
      initiator.kinds[index] = {.submitted = k.submitted(),
                                .completed = k.completed(),
                                .failed = k.failed(),
                                .aborted = k.aborted(),
                                .abandoned = k.abandoned(),
                                .bytes = k.bytes()};
    }
  }
  out.straggle_count = totals.straggle_count();
  out.stragglers.reserve(totals.stragglers_size());
  for (const v1::StraggleOp& s : totals.stragglers()) {
    MUSTER_RETURN_IF_ERROR(CheckInitiator(s.initiator()));
    MUSTER_ASSIGN_OR_RETURN(const OpKind kind, FromProto(s.kind()));
    out.stragglers.push_back({.initiator = s.initiator(),
                              .kind = kind,
                              .age_at_end = s.age_at_end_ns(),
                              .final_age = s.final_age_ns(),
                              .ended = s.ended()});
  }
  for (const v1::ConnectionTotals& connection : totals.connections()) {
    MUSTER_RETURN_IF_ERROR(CheckInitiator(connection.initiator()));
    out.connections.push_back(FromProto(connection));
  }
  out.last_sequence = totals.last_sequence();
  out.coarse_deltas = totals.coarse_deltas();
  out.last_interval = totals.last_interval();
  out.overloaded = totals.overloaded();
  out.poisoned = totals.poisoned();
  return out;
}

}  // namespace muster
