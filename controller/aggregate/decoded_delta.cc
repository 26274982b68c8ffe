#include "controller/aggregate/decoded_delta.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/base/status.h"

namespace muster {
namespace {

std::string PlaceOf(const std::string& agent, const IntervalDelta& delta) {
  return fmt::format("agent {} interval {}{}", agent, delta.interval, delta.drain ? " (drain)" : "");
}

absl::Status Damaged(const std::string& place, std::string message) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   {.code = "REPORT_DAMAGED",
                    .place = place,
                    .message = std::move(message),
                    .next = "The report is refused whole; agent and controller may be of different builds."});
}

// Moments alone, and nothing that came with them.
bool HasCounters(const InitiatorDelta& initiator) {
  const auto has = [](const EncodedHistogram& histogram) { return !histogram.counts.empty(); };
  return has(initiator.lateness) ||
         std::any_of(initiator.kinds.begin(), initiator.kinds.end(), [&](const KindDelta& kind) {
           return has(kind.response) || has(kind.wait) || has(kind.service) || has(kind.unfinished) ||
                  std::any_of(kind.errors.begin(), kind.errors.end(),
                              [&](const ErrorDelta& error) { return has(error.response); });
         });
}

absl::Status DecodeKind(const KindDelta& kind, bool drain, bool held, DecodedDelta& out) {
  const auto index = static_cast<size_t>(kind.kind);
  out.seen[index] = true;
  out.counters[index].Add(kind);
  if (!held) {
    Latencies& set = kind.due_in_window ? out.due[index] : out.other[index];
    MUSTER_RETURN_IF_ERROR(set.Add(kind));
    MUSTER_RETURN_IF_ERROR(set.AddUnfinished(kind.unfinished));
  }
  uint64_t largest = std::max(kind.response.moments.max, kind.unfinished.moments.max);
  for (const ErrorDelta& error : kind.errors) {
    if (!held) MUSTER_RETURN_IF_ERROR(Histogram::Decode(error.response).status());
    // An operation that was outstanding at the end and then failed still lasted that long.
    if (drain) largest = std::max(largest, error.response.moments.max);
  }
  out.largest[index] = std::max(out.largest[index], largest);
  return absl::OkStatus();
}

absl::Status DecodeInitiator(const InitiatorDelta& initiator, bool drain, const std::string& place, DecodedDelta& out) {
  if (initiator.held) {
    if (HasCounters(initiator)) return Damaged(place, "histograms said to be left out are there");
    ++out.held;
  }
  for (const KindDelta& kind : initiator.kinds) {
    if (static_cast<int>(kind.kind) >= kOpKinds) return Damaged(place, "a kind of operation that does not exist");
    MUSTER_RETURN_IF_ERROR(DecodeKind(kind, drain, initiator.held, out));
  }
  out.offered_integral += initiator.offered_integral;
  out.wire_integral += initiator.wire_integral;
  out.time_full += initiator.time_full;
  out.outstanding += initiator.outstanding;
  out.waiting += initiator.waiting;
  out.oldest_age = std::max(out.oldest_age, initiator.oldest_age);
  return initiator.held ? absl::OkStatus() : out.lateness.Merge(initiator.lateness);
}

bool Grow(uint64_t& sum, uint64_t by) {
  return !__builtin_add_overflow(sum, by, &sum);
}
bool Grow(Uint128& sum, Uint128 by) {
  sum += by;
  return sum >= by;
}

}  // namespace

absl::StatusOr<DecodedDelta> DecodeDelta(const std::string& agent, const std::vector<uint32_t>& carried,
                                         const IntervalDelta& delta) {
  const std::string place = PlaceOf(agent, delta);
  DecodedDelta out;
  std::set<uint32_t> seen;
  for (const InitiatorDelta& initiator : delta.initiators) {
    const std::string at = fmt::format("{} initiator {}", place, initiator.initiator);
    if (std::find(carried.begin(), carried.end(), initiator.initiator) == carried.end()) {
      return MakeError(absl::StatusCode::kInvalidArgument, {.code = "REPORT_UNKNOWN_INITIATOR",
                                                            .place = at,
                                                            .message = "the agent does not carry this initiator",
                                                            .next = "The report is refused whole."});
    }
    if (!seen.insert(initiator.initiator).second) {
      return MakeError(absl::StatusCode::kInvalidArgument, {.code = "REPORT_DUPLICATE_INITIATOR",
                                                            .place = at,
                                                            .message = "one report names the initiator twice",
                                                            .next = "The report is refused whole."});
    }
    if (absl::Status status = DecodeInitiator(initiator, delta.drain, at, out); !status.ok()) {
      return GetErrorInfo(status).place == at ? status : AtPlace(status, at);
    }
  }
  if (absl::Status status = out.hiccup.Merge(delta.hiccup); !status.ok()) return AtPlace(status, place);
  return out;
}

absl::Status CheckHeld(const HeldHistograms& held) {
  MUSTER_RETURN_IF_ERROR(Histogram::Decode(held.lateness).status());
  if (!held.kind.has_value()) return absl::OkStatus();
  for (const auto* histogram : {&held.kind->response, &held.kind->wait, &held.kind->service, &held.kind->unfinished}) {
    MUSTER_RETURN_IF_ERROR(Histogram::Decode(*histogram).status());
  }
  for (const ErrorDelta& error : held.kind->errors) {
    MUSTER_RETURN_IF_ERROR(Histogram::Decode(error.response).status());
  }
  return absl::OkStatus();
}

absl::Status Headroom::Take(const std::string& agent, const IntervalDelta& delta) {
  Sums next = sums_;
  bool fits = true;
  auto merge = [&](Moments& into, const Moments& from) {
    absl::Status status = into.Merge(from);
    return status.ok() ? status : AtPlace(status, PlaceOf(agent, delta));
  };
  MUSTER_RETURN_IF_ERROR(merge(next.hiccup, delta.hiccup.moments));
  for (const InitiatorDelta& initiator : delta.initiators) {
    fits &= Grow(next.offered, initiator.offered_integral) && Grow(next.wire, initiator.wire_integral);
    MUSTER_RETURN_IF_ERROR(merge(next.lateness, initiator.lateness.moments));
    for (const KindDelta& kind : initiator.kinds) {
      fits &= Grow(next.completed, kind.completed) && Grow(next.bytes, kind.bytes);
      MUSTER_RETURN_IF_ERROR(merge(next.response, kind.response.moments));
      MUSTER_RETURN_IF_ERROR(merge(next.response, kind.unfinished.moments));
      // Waits left out are zeros and their service is the response.
      MUSTER_RETURN_IF_ERROR(merge(next.wait, kind.wait.moments));
      MUSTER_RETURN_IF_ERROR(merge(next.service, HasExplicitWait(kind) ? kind.service.moments : kind.response.moments));
      for (const ErrorDelta& error : kind.errors) {
        fits &= Grow(next.failed, error.count);
        MUSTER_RETURN_IF_ERROR(merge(next.errors, error.response.moments));
      }
    }
  }
  if (!fits) return Damaged(PlaceOf(agent, delta), "a counter would pass 2^64 when added to what was there");
  sums_ = next;
  return absl::OkStatus();
}

}  // namespace muster
